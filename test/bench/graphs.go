// The graphs: throughput over depth, connections and I/O size, for RDMA, TCP and nfs-ganesha.

package main

import (
	"context"
	"fmt"
	"strconv"
)

// graphRounds is how often each point is measured: its median keeps one slow moment out.
const graphRounds = 3

// A plan is one graph: a test at several places.
type plan struct {
	name, title, x, y string
	test              string
	places            []int
	at                func(place int) job
	label             func(place int) string
}

var powers = []int{1, 2, 4, 8, 16, 32}

var plans = []plan{
	{"read-depth", "READ 1 MiB, 1 connection", "calls in flight", mib, "read", powers, atDepth, strconv.Itoa},
	{"write-depth", "WRITE 1 MiB + COMMIT, 1 connection", "calls in flight", mib, "write", powers, atDepth, strconv.Itoa},
	{"randread-depth", "READ 4 KiB random, 1 connection", "calls in flight", calls, "randread", powers, atDepth, strconv.Itoa},
	{"getattr-depth", "GETATTR, 1 connection", "calls in flight", calls, "getattr", powers, atDepth, strconv.Itoa},
	{"read-conns", "READ 1 MiB, 8 in flight on each connection", "connections", mib, "read", powers[:5], atConns, strconv.Itoa},
	{"randread-conns", "READ 4 KiB random, 8 in flight on each connection", "connections", calls, "randread", powers[:5], atConns, strconv.Itoa},
	{"read-size", "READ, 8 in flight", "I/O size", mib, "read", blocks, atBlock, kib},
	{"write-size", "WRITE + COMMIT, 8 in flight", "I/O size", mib, "write", blocks, atBlock, kib},
}

var blocks = []int{4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20}

func atDepth(n int) job { return job{depth: n} }
func atConns(n int) job { return job{depth: 8 * n, conns: n} }
func atBlock(n int) job { return job{depth: 8, block: n} }

// kib is a size in words.
func kib(n int) string { return fmt.Sprintf("%d KiB", n>>10) }

// curveNames is what the legend calls the targets.
var curveNames = map[target]string{rdma: "RDMA, CRC on", tcp: "our TCP", ganesha: "nfs-ganesha, TCP"}

// measureGraphs measures every point, a quarter as long as a row's figures.
func (b *bed) measureGraphs(ctx context.Context) error {
	for _, p := range plans {
		for range min(graphRounds, b.config.rounds) {
			for _, place := range p.places {
				j := p.at(place)
				j.tests, j.time = p.test, b.config.duration/4
				if err := b.round(ctx, p.key(place), j, rdma, tcp, ganesha); err != nil {
					return err
				}
			}
		}
		b.graphs = append(b.graphs, p.chart(b.samples, b.targets(rdma, tcp, ganesha)))
	}
	return nil
}

// key is where the samples of a place are.
func (p plan) key(place int) string { return fmt.Sprintf("graph/%s/%d", p.name, place) }

// chart makes a graph out of the medians.
func (p plan) chart(s samples, of []target) chart {
	c := chart{Name: p.name, Title: p.title, X: p.x, Y: p.y}
	for _, place := range p.places {
		c.Places = append(c.Places, p.label(place))
	}
	for _, t := range of {
		k := curve{Name: curveNames[t]}
		for _, place := range p.places {
			k.Values = append(k.Values, median(s[p.key(place)+"/"+p.test+"/"+string(t)]))
		}
		c.Curves = append(c.Curves, k)
	}
	return c
}
