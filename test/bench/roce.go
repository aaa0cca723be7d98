// The RoCE group: the verbs compared with raw UDP, NFS compared with iWARP, lossy networks, and a
// link shared with TCP.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"time"
)

func (b *bed) measureRoCE(ctx context.Context) error {
	err := b.each(func() error {
		d := b.config.duration / 2
		out, err := output(exec.CommandContext(ctx, filepath.Join(b.base, "nfsrdma"), "rnic-bench", "--json", "--rdma", "roce", "--duration", d.String()))
		if err != nil {
			return err
		}
		if err := b.samples.addRoCE(out); err != nil {
			return err
		}
		return b.round(ctx, "roce", job{tests: "read,write", depth: 8}, rdma, roce, roceLossy)
	})
	if err != nil {
		return err
	}
	return b.measureShare(ctx)
}

// addRoCE adds the figures in the JSON of rnic-bench --rdma roce.
func (s samples) addRoCE(out []byte) error {
	var r struct {
		UDP struct {
			Stream   float64 `json:"stream_mib_s"`
			PingPong micros  `json:"ping_pong_seconds"`
		} `json:"raw_udp"`
		Figures []struct {
			Mode struct {
				Lost int `json:"lost_percent"`
			}
			Test  string
			Size  int     `json:"bytes"`
			MiBs  float64 `json:"mib_s"`
			AvgUs micros  `json:"mean_seconds"`
			Ratio float64 `json:"ratio_to_raw"`
		}
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return err
	}
	s.add("roce/raw/stream", r.UDP.Stream)
	s.add("roce/raw/pingpong", float64(r.UDP.PingPong))
	for _, f := range r.Figures {
		at := "roce/"
		if f.Mode.Lost > 0 {
			at += "lossy/"
		}
		switch {
		case f.AvgUs > 0:
			s.add(at+f.Test, float64(f.AvgUs))
		case f.Size == 1<<20:
			s.add(at+f.Test, f.MiBs)
			s.add(at+f.Test+"/raw", f.MiBs/f.Ratio) // raw UDP's figure at the same time
		}
	}
	return nil
}

// The link shared by RoCE and TCP, and the time of each measurement. TCP finds its rate in a
// fraction of that time.
const (
	linkRate  = "400mbit"
	linkTime  = 2 * time.Second
	linkFile  = 8 << 20
	linkQueue = "20ms"
)

// measureShare makes RoCE and TCP read over a rate-limited link, alone and concurrently.
func (b *bed) measureShare(ctx context.Context) error {
	if !isolated() {
		return errors.New("a link of limited rate needs root")
	}
	enter, err := b.pair()
	if err != nil {
		return err
	}
	if err := command("tc", "qdisc", "replace", "dev", "bench0", "root", "tbf", "rate", linkRate, "burst", "64kb", "latency", linkQueue); err != nil {
		return err
	}
	j := job{tests: "read", depth: 8, size: linkFile, time: linkTime, prefix: enter, host: vethServer}
	for range min(b.config.rounds, 3) {
		if err := b.round(ctx, "link", j, roce, tcp); err != nil {
			return err
		}
		for of, other := range map[target]target{roce: tcp, tcp: roce} {
			beside := j
			beside.target, beside.time = other, 4*linkTime
			if err := b.whileRunning(ctx, beside, func() error { return b.round(ctx, "beside", j, of) }); err != nil {
				return err
			}
		}
	}
	return command("tc", "qdisc", "del", "dev", "bench0", "root")
}
