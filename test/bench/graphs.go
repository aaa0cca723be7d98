// The graphs: throughput by depth, connections and I/O size, for RDMA, TCP and nfs-ganesha.

package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// graphRounds is the number of measurements per point.
const graphRounds = 2

// A sweep measures tests at several points, and gives a graph per test.
type sweep struct {
	name, x string
	tests   []string
	places  []int
	at      func(place int) job
	label   func(place int) string
}

var sweeps = []sweep{
	{"depth", "calls in flight, 1 connection", []string{"read", "write", "randread", "getattr"}, []int{1, 2, 4, 8, 16, 32}, atDepth, strconv.Itoa},
	{"conns", "connections, 8 calls in flight on each", []string{"read", "randread"}, []int{1, 2, 4, 8, 16}, atConns, strconv.Itoa},
	{"size", "bytes of a call, 8 in flight", []string{"read", "write"}, []int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}, atBlock, kib},
}

func atDepth(n int) job { return job{depth: n} }
func atConns(n int) job { return job{depth: 8 * n, conns: n} }
func atBlock(n int) job { return job{depth: 8, block: n} }

// kib formats a size.
func kib(n int) string { return fmt.Sprintf("%d KiB", n>>10) }

// curveNames are the targets' names in the legend.
var curveNames = map[target]string{rdma: "RDMA, CRC on", tcp: "our TCP", ganesha: "nfs-ganesha, TCP"}

// measureGraphs measures every point, for half the time of a row's figures.
func (b *bed) measureGraphs(ctx context.Context) error {
	of := b.targets(rdma, tcp, ganesha)
	for _, w := range sweeps {
		for range min(graphRounds, b.config.rounds) {
			for _, place := range w.places {
				j := w.at(place)
				j.tests, j.time = strings.Join(w.tests, ","), b.config.duration/2
				if err := b.round(ctx, w.key(place), j, of...); err != nil {
					return err
				}
			}
		}
		for _, test := range w.tests {
			b.graphs = append(b.graphs, w.chart(test, b.samples, of))
		}
	}
	return nil
}

// key returns the prefix of a point's sample keys.
func (w sweep) key(place int) string { return fmt.Sprintf("graph/%s/%d", w.name, place) }

// chart makes a test's graph from the medians.
func (w sweep) chart(test string, s samples, of []target) chart {
	title, y := map[string]string{"randread": "READ 4 KiB random", "getattr": "GETATTR"}[test], calls
	if title == "" {
		title, y = strings.ToUpper(test), mib
		if w.name != "size" {
			title += " 1 MiB"
		}
	}
	c := chart{Name: test + "-" + w.name, Title: title, X: w.x, Y: y}
	for _, place := range w.places {
		c.Places = append(c.Places, w.label(place))
	}
	for _, t := range of {
		k := curve{Name: curveNames[t]}
		for _, place := range w.places {
			k.Values = append(k.Values, median(s[w.key(place)+"/"+test+"/"+string(t)]))
		}
		c.Curves = append(c.Curves, k)
	}
	return c
}
