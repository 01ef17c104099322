# Draws slow-network.svg from the results of the study, with the data of the study's own plot of
# accuracy against time: the runs on 10 Mbit/s, three seeds each. Greys and colours are readable on
# white and on black. From the top of the tree:
#
#   gradweir study examples/studies/slow-network.study
#   gnuplot -c docs/studies/slow-network.gp examples/studies/slow-network.results >docs/studies/slow-network.svg
load "< sed -n '/^$run/,/^EOD/p' '".ARG1."/plots/accuracy_time.gp'"
grey = '#808080'
set terminal svg size 720,340 dynamic font 'sans-serif,13' linewidth 1 name 'slow_network'
set border 3 lc rgb grey
set tics nomirror tc rgb grey
set grid lc rgb grey lw 0.5 dt 3
set logscale x
set xrange [4:2200]
set yrange [76:86]
set xtics (5, 10, 20, 50, 100, 200, 500, 1000, 2000)
set xlabel 'seconds of virtual time' tc rgb grey
set ylabel 'test accuracy [%]' tc rgb grey
set key outside right center reverse Left tc rgb grey
plot $run27 with lines lc rgb '#009e73' lw 2 title 'diloco:50', \
     $run28 with lines lc rgb '#009e73' lw 2 notitle, $run29 with lines lc rgb '#009e73' lw 2 notitle, \
     $run15 with lines lc rgb '#e69f00' lw 2 title 'local:16', \
     $run16 with lines lc rgb '#e69f00' lw 2 notitle, $run17 with lines lc rgb '#e69f00' lw 2 notitle, \
     $run21 with lines lc rgb '#56b4e9' lw 2 title 'easgd:16', \
     $run22 with lines lc rgb '#56b4e9' lw 2 notitle, $run23 with lines lc rgb '#56b4e9' lw 2 notitle, \
     $run9 with lines lc rgb '#cc79a7' lw 2 title 'async', \
     $run10 with lines lc rgb '#cc79a7' lw 2 notitle, $run11 with lines lc rgb '#cc79a7' lw 2 notitle, \
     $run3 with lines lc rgb '#d55e00' lw 2 title 'sync', \
     $run4 with lines lc rgb '#d55e00' lw 2 notitle, $run5 with lines lc rgb '#d55e00' lw 2 notitle
