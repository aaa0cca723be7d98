// The table: its rows with their bars, grouped by measurement.

package main

import (
	"context"
	"slices"
)

// A row compares the samples of one key with a bar.
type row struct {
	name    string
	unit    string
	value   string  // key of the figure
	against string  // key of the figure to divide by; empty: the bar is in the figure's unit
	what    string  // its name in the table
	bar     float64 // 0: no bar, only informative
	atMost  bool    // the bar is a maximum rather than a minimum
}

// A group is a set of rows measured together.
type group struct {
	name    string
	measure func(*bed, context.Context) error
	rows    []row
}

// quickGroups are the groups of -quick.
var quickGroups = []string{"data", "small", "latency", "list", "conns", "veth", "rnic", "tail", "disk"}

// groups is the table, from top to bottom.
var groups = []group{
	{"data", (*bed).measureData, dataRows},
	{"small", (*bed).measureSmall, smallRows},
	{"latency", (*bed).measureLatency, latencyRows},
	{"list", (*bed).measureList, listRows},
	{"million", (*bed).measureMillion, millionRows},
	{"conns", (*bed).measureConns, connsRows},
	{"idle", (*bed).measureIdle, idleRows},
	{"veth", (*bed).measureVeth, slices.Concat(vethRows("1500"), vethRows("9000"))},
	{"rnic", (*bed).measureRnic, rnicRows},
	{"roce", (*bed).measureRoCE, roceRows},
	{"sockets", (*bed).measureSockets, socketRows},
	{"tail", (*bed).measureTail, tailRows},
	{"cost", (*bed).measureCost, costRows},
	{"disk", (*bed).measureDisk, diskRows},
	{"graphs", (*bed).measureGraphs, nil},
}

// groupNames returns the names of all groups.
func groupNames() []string {
	return []string{"data", "small", "latency", "list", "million", "conns", "idle", "veth", "rnic", "roce", "sockets", "tail", "cost", "disk", "graphs"}
}

// namesOf returns the names of groups.
func namesOf(of []group) (names []string) {
	for _, g := range of {
		names = append(names, g.name)
	}
	return names
}

const (
	asGanesha  = "nfs-ganesha, TCP"
	asTCP      = "our TCP"
	asPlain    = "plain TCP"
	asPing     = "raw ping-pong"
	asUDP      = "raw UDP"
	asLossless = "none lost"
	mib        = "MiB/s"
	calls      = "calls/s"
)

var dataRows = []row{
	{"raw TCP stream", mib, "data/raw/stream", "", "", 0, false},
	{"limit: pread, CRC at both ends", mib, "data/raw/readcrc", "data/raw/stream", "raw TCP", 0, false},
	{"limit: pread", mib, "data/raw/read", "data/raw/stream", "raw TCP", 0, false},
	{"limit: sendfile", mib, "data/raw/sendfile", "data/raw/stream", "raw TCP", 0, false},
	{"limit: CRC at both ends, pwrite", mib, "data/raw/writecrc", "data/raw/stream", "raw TCP", 0, false},
	{"limit: pwrite", mib, "data/raw/write", "data/raw/stream", "raw TCP", 0, false},
	{"READ 1 MiB, nfs-ganesha over TCP", mib, "data/read/ganesha", "data/raw/read", "limit: pread", 0, false},
	{"WRITE 1 MiB + COMMIT, nfs-ganesha over TCP", mib, "data/write/ganesha", "data/raw/write", "limit: pwrite", 0, false},
	{"READ 1 MiB, RDMA, CRC on", mib, "data/read/rdma", "data/raw/readcrc", "limit: pread + CRC", 0.95, false},
	{"READ 1 MiB, RDMA, CRC on", mib, "data/read/rdma", "data/read/ganesha", asGanesha, 1, false},
	{"READ 1 MiB, RDMA, CRC on", mib, "data/read/rdma", "data/read/tcp", asTCP, 0, false},
	{"READ 1 MiB, RDMA, CRC off", mib, "data/read/rdmaoff", "data/read/ganesha", asGanesha, 1.3, false},
	{"READ 1 MiB, RDMA, CRC off", mib, "data/read/rdmaoff", "data/read/tcp", asTCP, 0.97, false},
	{"READ 1 MiB, TCP", mib, "data/read/tcp", "data/read/ganesha", asGanesha, 1.3, false},
	{"WRITE 1 MiB + COMMIT, RDMA, CRC on", mib, "data/write/rdma", "data/write/ganesha", asGanesha, 1, false},
	{"WRITE 1 MiB + COMMIT, RDMA, CRC on", mib, "data/write/rdma", "data/raw/writecrc", "limit: CRC + pwrite", 0.9, false},
	{"WRITE 1 MiB + COMMIT, RDMA, CRC on", mib, "data/write/rdma", "data/write/tcp", asTCP, 0, false},
	{"WRITE 1 MiB + COMMIT, RDMA, CRC off", mib, "data/write/rdmaoff", "data/write/ganesha", asGanesha, 1.15, false},
	{"server CPU, READ, RDMA, CRC on", "ms/GiB", "data/read/rdma/cpu", "data/read/ganesha/cpu", asGanesha, 0.85, true},
	{"server CPU, WRITE, RDMA, CRC on", "ms/GiB", "data/write/rdma/cpu", "data/write/ganesha/cpu", asGanesha, 0.85, true},
}

var smallRows = []row{
	{"READ 4 KiB random, depth 8, RDMA", calls, "small/randread/rdma", "small/randread/tcp", asTCP, 1, false},
	{"READ 4 KiB random, depth 8, RDMA", calls, "small/randread/rdma", "small/randread/ganesha", asGanesha, 2, false},
	{"READ 4 KiB random, 4 connections, RDMA", calls, "small4/randread/rdma", "small4/randread/tcp", asTCP, 1, false},
	{"READ 4 KiB random, 4 connections, RDMA", calls, "small4/randread/rdma", "small4/randread/ganesha", asGanesha, 2, false},
	{"WRITE 4 KiB random, depth 8, RDMA", calls, "small/randwrite/rdma", "small/randwrite/tcp", asTCP, 1, false},
	{"WRITE 4 KiB random, depth 8, RDMA", calls, "small/randwrite/rdma", "small/randwrite/ganesha", asGanesha, 2, false},
	{"WRITE 4 KiB random, 4 connections, RDMA", calls, "small4/randwrite/rdma", "small4/randwrite/tcp", asTCP, 1, false},
	{"WRITE 4 KiB random, 4 connections, RDMA", calls, "small4/randwrite/rdma", "small4/randwrite/ganesha", asGanesha, 2, false},
	{"GETATTR, depth 8, RDMA", calls, "small/getattr/rdma", "small/getattr/tcp", asTCP, 1, false},
	{"GETATTR, depth 8, RDMA", calls, "small/getattr/rdma", "small/getattr/ganesha", asGanesha, 2.2, false},
	{"LOOKUP, depth 8, RDMA", calls, "small/lookup/rdma", "small/lookup/tcp", asTCP, 1, false},
	{"LOOKUP, depth 8, RDMA", calls, "small/lookup/rdma", "small/lookup/ganesha", asGanesha, 2.2, false},
}

var latencyRows = []row{
	{"NULL, depth 1, RDMA", "µs", "latency/null/rdma/us", "latency/raw/pingpong", asPing, 1.25, true},
	{"GETATTR, depth 1, RDMA", "µs", "latency/getattr/rdma/us", "latency/raw/pingpong", asPing, 1.25, true},
	{"NULL, depth 1, TCP", "µs", "latency/null/tcp/us", "latency/raw/pingpong", asPing, 0, true},
	{"NULL, depth 1, RDMA, beside READs", "µs", "loaded/null/rdma/us", "loaded/raw/pingpong", asPing, 1.25, true},
	{"GETATTR, depth 1, RDMA, beside READs", "µs", "loaded/getattr/rdma/us", "loaded/raw/pingpong", asPing, 1.25, true},
}

var listRows = []row{
	{"READDIRPLUS, 1,000 names, RDMA", "entries/s", "list/readdirplus/rdma", "", "", 600_000, false},
	{"READDIRPLUS, 1,000 names, RDMA, 4 at once", "entries/s", "list4/readdirplus/rdma", "", "", 600_000, false},
	{"READDIRPLUS, 1,000 names, TCP", "entries/s", "list/readdirplus/tcp", "", "", 0, false},
	{"READDIRPLUS, 1,000 names, nfs-ganesha over TCP", "entries/s", "list/readdirplus/ganesha", "", "", 0, false},
	{"READDIRPLUS, 1,000 names, nfs-ganesha over TCP, 4 at once", "entries/s", "list4/readdirplus/ganesha", "", "", 0, false},
}

var millionRows = []row{
	{"READDIRPLUS, 1,000,000 names, RDMA", "entries/s", "million/readdirplus/rdma", "", "", 600_000, false},
	{"READDIRPLUS, 1,000,000 names, nfs-ganesha over TCP", "entries/s", "million/readdirplus/ganesha", "", "", 0, false},
	{"growth of the server by listing 1,000,000 names", "MiB", "million/growth", "", "", 32, true},
}

var connsRows = []row{
	{"READ 1 MiB, 1 connection, RDMA", mib, "conns/1/sum", "", "", 0, false},
	{"sum of 4 connections", mib, "conns/4/sum", "conns/1/sum", "1 connection", 1, false},
	{"sum of 8 connections", mib, "conns/8/sum", "conns/1/sum", "1 connection", 1, false},
	{"sum of 16 connections", mib, "conns/16/sum", "conns/1/sum", "1 connection", 1, false},
	{"slowest of 4 connections", mib, "conns/4/least", "conns/4/mean", "their mean", 0.8, false},
	{"slowest of 8 connections", mib, "conns/8/least", "conns/8/mean", "their mean", 0.8, false},
	{"slowest of 16 connections", mib, "conns/16/least", "conns/16/mean", "their mean", 0.8, false},
}

var idleRows = []row{
	{"idle RDMA connections", "", "idle/count", "", "", 0, false},
	{"an idle connection, server", "KiB", "idle/server", "", "", 32, true},
	{"an idle connection, client", "KiB", "idle/client", "", "", 32, true},
	{"server with all of them", "MB", "idle/resident", "", "", 350, true},
	{"server a minute after they closed", "MB", "idle/after", "idle/before", "before them", 0, true},
	{"READ 1 MiB beside idle connections", mib, "idle/read/rdma", "idlebefore/read/rdma", "without them", 0.95, false},
}

// vethRows returns the rows for a veth pair with an MTU.
func vethRows(mtu string) []row {
	at := "veth" + mtu + "/"
	title := ", veth, MTU " + mtu
	return []row{
		{"READ 1 MiB, RDMA, CRC on" + title, mib, at + "read/rdma", at + "raw/readcrc", "limit: pread + CRC", 0.95, false},
		{"READ 1 MiB, RDMA, CRC off" + title, mib, at + "read/rdmaoff", at + "read/tcp", asTCP, 0.97, false},
		{"WRITE 1 MiB + COMMIT, RDMA, CRC on" + title, mib, at + "write/rdma", at + "raw/writecrc", "limit: CRC + pwrite", 0.9, false},
		{"GETATTR, depth 8, RDMA" + title, calls, at + "getattr/rdma", at + "getattr/tcp", asTCP, 1, false},
		{"NULL, depth 1, RDMA" + title, "µs", at + "null/rdma/us", at + "raw/pingpong", asPing, 1.25, true},
	}
}

var rnicRows = []row{
	{"RDMA Write 1 MiB", mib, "rnic/write/1048576/8", "rnic/raw", "raw TCP", 0, false},
	{"RDMA Read 1 MiB", mib, "rnic/read/1048576/8", "rnic/write/1048576/8", "RDMA Write", 0.9, false},
	{"RDMA Read 64 KiB", mib, "rnic/read/65536/8", "rnic/write/65536/8", "RDMA Write", 0.9, false},
	// With eight Reads in flight, Reads wait one round trip per eight, unlike Writes. A deeper
	// queue shows the throughput of Reads at this size.
	{"RDMA Read 4 KiB", mib, "rnic/read/4096/8", "rnic/write/4096/8", "RDMA Write", 0, false},
	{"RDMA Read 4 KiB, 64 in flight", mib, "rnic/read/4096/64", "rnic/write/4096/64", "RDMA Write", 0.9, false},
	{"RDMA Write 4 KiB", mib, "rnic/write/4096/8", "rnic/raw", "raw TCP", 0.4, false},
	{"RDMA Write 4 KiB, 64 in flight", mib, "rnic/write/4096/64", "rnic/raw", "raw TCP", 0.4, false},
	{"RDMA Read 4 KiB", mib, "rnic/read/4096/8", "rnic/raw", "raw TCP", 0.4, false},
	{"RDMA Read 4 KiB, 64 in flight", mib, "rnic/read/4096/64", "rnic/raw", "raw TCP", 0.4, false},
}

var roceRows = []row{
	{"raw UDP stream", mib, "roce/raw/stream", "", "", 0, false},
	{"RC RDMA Write 1 MiB", mib, "roce/write", "roce/write/raw", asUDP, 0.7, false},
	{"RC RDMA Read 1 MiB", mib, "roce/read", "roce/read/raw", asUDP, 0.7, false},
	{"RC RDMA Write 1 MiB, 1 % of packets lost", mib, "roce/lossy/write", "roce/write", asLossless, 0.25, false},
	{"RC RDMA Read 1 MiB, 1 % of packets lost", mib, "roce/lossy/read", "roce/read", asLossless, 0.25, false},
	{"RC Send and answer", "µs", "roce/send", "roce/raw/pingpong", asUDP, 1.5, true},
	{"UD Send and answer", "µs", "roce/datagram", "roce/raw/pingpong", asUDP, 1.25, true},
	{"READ 1 MiB, RoCE", mib, "roce/read/roce", "roce/read/rdma", "iWARP, CRC on", 0.5, false},
	{"WRITE 1 MiB + COMMIT, RoCE", mib, "roce/write/roce", "roce/write/rdma", "iWARP, CRC on", 0, false},
	{"READ 1 MiB, RoCE, 1 % of packets lost", mib, "roce/read/rocelossy", "roce/read/roce", asLossless, 0.25, false},
	{"WRITE 1 MiB + COMMIT, RoCE, 1 % of packets lost", mib, "roce/write/rocelossy", "roce/write/roce", asLossless, 0.25, false},
	{"READ, RoCE, link of 400 Mbit/s, beside TCP", mib, "beside/read/roce", "link/read/roce", "alone", 0.25, false},
	{"READ, TCP, link of 400 Mbit/s, beside RoCE", mib, "beside/read/tcp", "link/read/tcp", "alone", 0.25, false},
}

var tailRows = []row{
	{"p99 of GETATTR, depth 8, RDMA, beside a READ stream", "µs", "beside/getattr/rdma/p99", "alone/getattr/rdma/p99", "alone", 4, true},
	{"p99 of GETATTR, depth 8, TCP, beside a READ stream", "µs", "beside/getattr/tcp/p99", "alone/getattr/tcp/p99", "alone", 4, true},
}

var diskRows = []row{
	{"READ 4 KiB random, depth 32, cold cache, RDMA", calls, "disk/rdma", "disk/fio", "fio, io_uring", 0.9, false},
}
