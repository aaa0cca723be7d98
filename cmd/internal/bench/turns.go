// Large Writes and Reads over RoCE and raw UDP in turns, so that a machine that changes its speed changes both.

package bench

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// turns is how many slices a figure has.
const turns = 5

// inTurns measures RDMA Writes and Reads of the largest size and raw UDP, in slices of d that alternate. What a figure is of raw UDP's is the
// median of what its slices are of those beside them.
func (r *VerbsReport) inTurns(ctx context.Context, v *verbsRun, m Mode, d time.Duration) error {
	peer, err := child.Start(ctx, "_rawudp")
	if err != nil {
		return err
	}
	defer peer.Stop()
	to, err := netip.ParseAddrPort(peer.Line)
	if err != nil {
		return err
	}
	conn, err := openUDP()
	if err != nil {
		return err
	}
	defer conn.Close()
	load, d := verbsLoads[len(verbsLoads)-1], d/turns
	raw, err := udpStreamRate(conn, to, d)
	if err != nil {
		return err
	}
	r.streams = append(r.streams, raw)
	figures := []*verbsFigure{{Mode: m, Test: "write", Size: load.size, Depth: load.depth}, {Mode: m, Test: "read", Size: load.size, Depth: load.depth}}
	rates, shares := make([][]float64, len(figures)), make([][]float64, len(figures))
	for range turns {
		for i, op := range []rnic.Opcode{rnic.OpWrite, rnic.OpRead} {
			var one VerbsReport
			if err := one.bulk(ctx, v, m, op, load, d); err != nil {
				return err
			}
			before := raw
			if raw, err = udpStreamRate(conn, to, d); err != nil {
				return err
			}
			r.streams = append(r.streams, raw)
			f := one.Figures[0]
			figures[i].Count += f.Count
			rates[i] = append(rates[i], f.MiBs)
			shares[i] = append(shares[i], f.MiBs/((before+raw)/2))
		}
	}
	for i, f := range figures {
		f.MiBs, f.Ratio = middle(rates[i]), middle(shares[i])
	}
	r.Figures = append(r.Figures, figures...)
	if err := v.same(load.size); err != nil {
		return err
	}
	return nil
}

// middle is the median of an odd number of values, and else the larger of the two in the middle.
func middle(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[len(s)/2]
}

// same checks that what was written and read again is what it was.
func (v *verbsRun) same(n int) error {
	if !slices.Equal(v.mem[:n], v.src[:n]) {
		return fmt.Errorf("%d bytes that were written came back different", n)
	}
	return nil
}
