// The verbs between two processes, compared with raw TCP.

package bench

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
)

// A verbsLoad is one RDMA Write's or Read's size, and the number in flight.
type verbsLoad struct{ size, depth int }

// verbsLoads also has small messages with a deep queue, which show the message rate.
var verbsLoads = []verbsLoad{{4 << 10, verbsDepth}, {4 << 10, verbsDeep}, {16 << 10, verbsDepth}, {64 << 10, verbsDepth}, {256 << 10, verbsDepth},
	{1 << 20, verbsDepth}}

// Verbs measures every mode, and raw TCP before and after, so that a change in the machine's speed
// does not bias the ratios.
func Verbs(ctx context.Context, d time.Duration) (*VerbsReport, error) {
	r := &VerbsReport{Depth: verbsDepth}
	raw, err := rawPlan{each: d}.around(ctx, func() error {
		for _, m := range []Mode{{CRC: true}, {}, {CRC: true, Markers: true}, {Markers: true}} {
			if err := r.measure(ctx, m, d); err != nil {
				return fmt.Errorf("%s: %w", m, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if r.UCX, err = measureUCX(ctx, d); err != nil { // UCX is optional
		r.UCXErr = err.Error()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.compare(raw)
	return r, nil
}

// A verbsRun is our end of the connection, with the peer's memory address.
type verbsRun struct {
	*verbsEnd
	stag rnic.STag
	base uint64
	src  []byte // random bytes to write
	sink *rnic.MR
	mem  []byte // the memory of sink

	to *rnic.AddressHandle // datagram destination
}

func (r *VerbsReport) measure(ctx context.Context, m Mode, d time.Duration) error {
	peer, err := child.Start(ctx, "_rnicpeer", fmt.Sprintf("--crc=%t", m.CRC), fmt.Sprintf("--markers=%t", m.Markers), fmt.Sprintf("--roce=%t", m.RoCE))
	if err != nil {
		return err
	}
	defer peer.Stop()
	v, err := dialVerbs(ctx, m, peer.Line)
	if err != nil {
		return err
	}
	defer v.qp.Close()
	loads := verbsLoads
	switch last := len(loads) - 1; {
	case m.Lost > 0:
		loads = loads[last:]
	case m.RoCE:
		loads = loads[:last]
	}
	for _, load := range loads {
		if err := r.bulk(ctx, v, m, rnic.OpWrite, load, d); err != nil {
			return err
		}
		if err := r.bulk(ctx, v, m, rnic.OpRead, load, d); err != nil {
			return err
		}
		if err := v.checkEqual(load.size); err != nil {
			return err
		}
	}
	if m.Lost > 0 { // the other tests would only measure the waits for lost packets
		return nil
	}
	if m.RoCE {
		if err := r.alternate(ctx, v, m, d); err != nil {
			return err
		}
	}
	h, err := v.pingPong(ctx, d)
	if err == nil {
		r.latency(m, "send", h)
	}
	return err
}

// latency adds a ping-pong's results.
func (r *VerbsReport) latency(m Mode, test string, h *Histogram) {
	r.Figures = append(r.Figures, &verbsFigure{Mode: m, Test: test, Size: verbsMessage, Count: int64(h.N),
		AvgUs: us(h.Mean()), P50Us: us(h.Quantile(0.5)), P99Us: us(h.Quantile(0.99))})
}

// dialVerbs connects. The peer's private data has its memory address.
func dialVerbs(ctx context.Context, m Mode, addr string) (*verbsRun, error) {
	dev := m.open()
	e, err := newVerbsEnd(dev)
	if err != nil {
		return nil, err
	}
	v := &verbsRun{verbsEnd: e, src: make([]byte, verbsMemory), mem: make([]byte, verbsMemory)}
	rand.Read(v.src)
	if v.sink, err = e.pd.RegMR(v.mem, rnic.LocalWrite); err != nil {
		return nil, err
	}
	var params rnic.ConnParams
	if !m.RoCE {
		params.Provider = iwarp.ConnOptions{Settle: -1}
	}
	if err := dev.Connect(ctx, e.qp, addr, params); err != nil {
		return nil, err
	}
	p := e.qp.PrivateData()
	if len(p) < 12 { // RoCE's CM pads with zeroes
		e.qp.Close()
		return nil, errors.New("the peer does not say where its memory is")
	}
	v.stag, v.base = rnic.STag(binary.BigEndian.Uint32(p)), binary.BigEndian.Uint64(p[4:])
	return v, nil
}

// bulk keeps load.depth requests in flight for d, at least one request. It ends with an empty Read,
// which is answered only when all earlier Writes are in the peer's memory.
func (r *VerbsReport) bulk(ctx context.Context, v *verbsRun, m Mode, op rnic.Opcode, load verbsLoad, d time.Duration) error {
	n := load.size
	wr := rnic.SendWR{Op: op, RemoteSTag: v.stag, RemoteTO: v.base}
	if op == rnic.OpRead {
		wr.MR, wr.Length = v.sink, uint32(n)
	} else {
		wr.SGL = [][]byte{v.src[:n]}
	}
	start, flying, count := time.Now(), 0, int64(0)
	drain := func(down int) error {
		for flying > down {
			k, err := v.waitSome(ctx, n <= verbsSmall)
			if err != nil {
				return err
			}
			flying -= k
		}
		return nil
	}
	for count == 0 || time.Since(start) < d {
		if err := v.qp.PostSend(wr); err != nil {
			return err
		}
		count++
		if flying++; flying == load.depth {
			if err := drain(load.depth - 1); err != nil {
				return err
			}
		}
	}
	flying++
	if err := v.qp.PostSend(rnic.SendWR{Op: rnic.OpRead, MR: v.sink, RemoteSTag: v.stag, RemoteTO: v.base}); err != nil {
		return err
	}
	if err := drain(0); err != nil {
		return err
	}
	secs := time.Since(start).Seconds()
	test := "write"
	if op == rnic.OpRead {
		test = "read"
	}
	r.Figures = append(r.Figures, &verbsFigure{Mode: m, Test: test, Size: n, Depth: load.depth, Count: count,
		MiBs: float64(count) * float64(n) / (1 << 20) / secs})
	return nil
}

// pingPong sends a message, and the next message from the CQ handler as soon as the answer arrives.
func (v *verbsRun) pingPong(ctx context.Context, d time.Duration) (*Histogram, error) {
	var h Histogram
	done := make(chan error, 1)
	ping := rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{v.src[:verbsMessage]}, Unsignaled: true, AH: v.to}
	start := time.Now()
	sent := start
	v.cq.SetHandler(func() {
		_, err := v.each(func(wc rnic.WC) {
			now := time.Now()
			h.Add(now.Sub(sent))
			if now.Sub(start) >= d {
				done <- nil
				return
			}
			sent = now
			if v.qp.PostRecv(v.recv(wc.ID)) == nil {
				_ = v.qp.PostSend(ping)
			}
		})
		if err != nil {
			select {
			case done <- err:
			default:
			}
		}
	})
	v.signals.Store(true)
	v.qp.EnsureReceiver()
	if err := v.qp.PostSend(ping); err != nil {
		return nil, err
	}
	select {
	case err := <-done:
		return &h, err
	case <-v.qp.Done():
		return nil, v.qp.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
