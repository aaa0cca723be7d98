// Large RoCE Writes and Reads alternate with raw UDP, so a change in the machine's speed affects
// both.

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

// sliceCount is the number of slices for each figure.
const sliceCount = 5

// alternate measures the largest RDMA Writes and Reads and raw UDP in alternating slices of d. The
// ratio is the median of neighboring slices' ratios.
func (r *VerbsReport) alternate(ctx context.Context, v *verbsRun, m Mode, d time.Duration) error {
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
	load, d := verbsLoads[len(verbsLoads)-1], d/sliceCount
	raw, err := udpStreamRate(conn, to, d)
	if err != nil {
		return err
	}
	r.streams = append(r.streams, raw)
	figures := []*verbsFigure{{Mode: m, Test: "write", Size: load.size, Depth: load.depth}, {Mode: m, Test: "read", Size: load.size, Depth: load.depth}}
	rates, shares := make([][]float64, len(figures)), make([][]float64, len(figures))
	for range sliceCount {
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
		f.MiBs, f.Ratio = median(rates[i]), median(shares[i])
	}
	r.Figures = append(r.Figures, figures...)
	if err := v.checkEqual(load.size); err != nil {
		return err
	}
	return nil
}

// median returns the median; for an even number of values the larger of the middle two.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return s[len(s)/2]
}

// checkEqual checks that the bytes read back equal the bytes written.
func (v *verbsRun) checkEqual(n int) error {
	if !slices.Equal(v.mem[:n], v.src[:n]) {
		return fmt.Errorf("%d bytes that were written came back different", n)
	}
	return nil
}
