dnl transport: libuv carries the loop; further links are probed here when they come.
GW_NEED([UV], [libuv >= 1.44], [libuv1-dev], [the event loop])
GW_REPORT([transports], [tcp (libuv $($PKG_CONFIG --modversion libuv)), sim])
