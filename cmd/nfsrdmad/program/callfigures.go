// Metrics of calls, counted by the serving goroutines without locks or allocation.

package program

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nfsacl3"
	"github.com/prometheus/client_golang/prometheus"
)

// durations are the upper bounds of the histogram's classes.
var durations = [...]time.Duration{
	10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
}

// procFigures has the metrics of one procedure on one transport. The sum of classes is the number
// of calls. This saves a counter per call, and values read together are consistent.
type procFigures struct {
	classes        [len(durations) + 1]atomic.Uint64 // calls by time; the last class has no bound
	nanos, in, out atomic.Uint64
	// statuses of failed calls; entries are only added and never move
	statuses atomic.Pointer[[]statusCount]
	rdma     bool
	program  *transport.Program
	name     string // the procedure's name
}

// A statusCount counts the calls that failed with one status.
type statusCount struct {
	status uint64 // from the call's results, or a constant below
	n      *atomic.Uint64
}

// Statuses for ONC RPC errors of procedures, above the 32 bits of a status in results.
const (
	garbageArgs = 1<<32 + iota
	authError
	systemErr
	otherStatus
)

// maxStatuses limits the statuses per procedure; further ones count as otherStatus.
const maxStatuses = 40

// chunkKinds names the bits of rpcrdma.Offered; the last name stands for no bit.
var chunkKinds = [...]string{"read_list", "write_list", "reply_chunk", "inline"}

// callFigures has the metrics of all calls.
type callFigures struct {
	// Set once.
	programs []programFigures
	list     []*procFigures // all procFigures in programs, each once

	chunks [len(chunkKinds)]atomic.Uint64
}

// programFigures has the metrics of one program, by procedure number and transport: TCP, RDMA.
type programFigures struct {
	number, version uint32
	procs           [][2]*procFigures // nil for numbers that the protocol skips
}

func newCallFigures(programs []*transport.Program) *callFigures {
	c := &callFigures{}
	for _, p := range programs {
		f := programFigures{p.Number, p.Version, make([][2]*procFigures, len(p.Procs))}
		for i := range p.Procs {
			if p.Procs[i].Name == "" {
				continue
			}
			for via := range f.procs[i] {
				f.procs[i][via] = &procFigures{rdma: via == 1, program: p, name: p.Procs[i].Name}
				c.list = append(c.list, f.procs[i][via])
			}
		}
		c.programs = append(c.programs, f)
	}
	return c
}

// of returns a procedure's metrics, or nil.
func (c *callFigures) of(s *transport.CallStats) *procFigures {
	for i := range c.programs {
		p := &c.programs[i]
		if p.number == s.Program.Number && p.version == s.Program.Version && uint64(s.Number) < uint64(len(p.procs)) {
			return p.procs[s.Number][viaIndex(s.RDMA)]
		}
	}
	return nil
}

func viaIndex(rdma bool) int {
	if rdma {
		return 1
	}
	return 0
}

// count counts one call.
func (c *callFigures) count(s *transport.CallStats) {
	f := c.of(s)
	if f == nil {
		return
	}
	f.classes[class(s.Took)].Add(1)
	f.nanos.Add(uint64(max(s.Took, 0)))
	f.in.Add(uint64(s.In))
	f.out.Add(uint64(s.Out))
	if s.RDMA {
		c.countChunks(s.Offered)
	}
	if status := callStatus(s); status != 0 {
		f.refused(status).Add(1)
	}
}

// firstClass maps a bit length to the class of the shortest time in nanoseconds with that length.
// From there class takes at most one step, because neighboring bounds are at least a factor of two
// apart.
var firstClass = func() (first [65]uint8) {
	for n := range first {
		shortest := uint64(1) << n >> 1
		for int(first[n]) < len(durations) && shortest > uint64(durations[first[n]]) {
			first[n]++
		}
	}
	return first
}()

// class returns the index of the first of durations that is not below d.
func class(d time.Duration) int {
	i := int(firstClass[bits.Len64(uint64(max(d, 0)))])
	for i < len(durations) && d > durations[i] {
		i++
	}
	return i
}

func (c *callFigures) countChunks(o rpcrdma.Offered) {
	if o == 0 {
		c.chunks[len(chunkKinds)-1].Add(1)
	}
	for ; o != 0; o &= o - 1 {
		c.chunks[bits.TrailingZeros8(uint8(o))].Add(1)
	}
}

// refused returns a status's counter. A status's first call replaces the list by a copy with a new
// counter.
func (f *procFigures) refused(status uint64) *atomic.Uint64 {
	for {
		old := f.statuses.Load()
		var list []statusCount
		if old != nil {
			list = *old
		}
		for i := range list {
			if list[i].status == status {
				return list[i].n
			}
		}
		if len(list) >= maxStatuses && status != otherStatus {
			status = otherStatus
			continue
		}
		next := append(slices.Clone(list), statusCount{status, new(atomic.Uint64)})
		if f.statuses.CompareAndSwap(old, &next) {
			return next[len(next)-1].n
		}
	}
}

// callStatus returns the status of a failed call, or 0 for success. All results of NFS and NFSACL,
// and those of MNT, begin with the status.
func callStatus(s *transport.CallStats) uint64 {
	if s.Err != nil {
		return rpcStatus(s.Err)
	}
	if len(s.Results) < 4 { // NULL has no results
		return 0
	}
	switch s.Program.Number {
	case mount3.Program:
		if s.Number != mount3.ProcMnt {
			return 0
		}
	case nfs3.Program, nfsacl3.Program:
	default:
		return 0
	}
	return uint64(binary.BigEndian.Uint32(s.Results))
}

// rpcStatus returns the ONC RPC status (RFC 5531 §9) for a procedure's error.
func rpcStatus(err error) uint64 {
	var auth *transport.AuthError
	switch {
	case errors.Is(err, transport.ErrGarbageArgs):
		return garbageArgs
	case errors.As(err, &auth):
		return authError
	}
	return systemErr
}

// statusName returns a status's name in the procedure's program.
func (f *procFigures) statusName(status uint64) string {
	switch {
	case status == garbageArgs:
		return "GARBAGE_ARGS"
	case status == authError:
		return "AUTH_ERROR"
	case status == systemErr:
		return "SYSTEM_ERR"
	case status == otherStatus:
		return "other"
	case f.program.Number == mount3.Program:
		return mount3.Status(status).String()
	}
	return nfs3.Status(status).String()
}

var callLabels = []string{"transport", "program", "procedure"}

var (
	callCount    = desc("calls_total", "Calls by procedure, including those that failed.", callLabels...)
	callTook     = desc("call_duration_seconds", "Time that procedures took on the server, without the network.", callLabels...)
	callIn       = desc("argument_bytes_total", "Bytes of arguments, including data.", callLabels...)
	callOut      = desc("result_bytes_total", "Bytes of results, including data.", callLabels...)
	callErrors   = desc("call_errors_total", "Calls that failed, by status of NFS, MOUNT or RPC.", append(callLabels, "status")...)
	callOffering = desc("rdma_calls_total", "Calls over RDMA, by chunk lists that they have; inline: none. A call counts for each of its lists.", "chunks")
)

// Describe implements prometheus.Collector.
func (c *callFigures) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{callCount, callTook, callIn, callOut, callErrors, callOffering} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *callFigures) Collect(ch chan<- prometheus.Metric) {
	for _, f := range c.list {
		f.collect(ch)
	}
	for i, kind := range chunkKinds {
		ch <- counter(callOffering, c.chunks[i].Load(), kind)
	}
}

func (f *procFigures) collect(ch chan<- prometheus.Metric) {
	labels := []string{viaName(f.rdma), f.program.Name, f.name}
	below := make(map[float64]uint64, len(durations))
	all := uint64(0)
	for i, d := range durations {
		all += f.classes[i].Load()
		below[d.Seconds()] = all
	}
	all += f.classes[len(durations)].Load()
	ch <- counter(callCount, all, labels...)
	ch <- counter(callIn, f.in.Load(), labels...)
	ch <- counter(callOut, f.out.Load(), labels...)
	if all > 0 { // most procedures are never called; their classes would fill most of the page
		ch <- prometheus.MustNewConstHistogram(callTook, all, time.Duration(f.nanos.Load()).Seconds(), below, labels...)
	}
	if list := f.statuses.Load(); list != nil {
		for _, s := range *list {
			ch <- counter(callErrors, s.n.Load(), append(labels, f.statusName(s.status))...)
		}
	}
}

func viaName(rdma bool) string {
	if rdma {
		return "rdma"
	}
	return "tcp"
}
