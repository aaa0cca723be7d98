// The wire: two networks joined by a path with MTU 1500 and a delay in each direction.

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

const (
	wireDelay = 100 * time.Microsecond // each way
	wireQueue = "20000"                // frames that can wait at an end: more than all windows
)

// A wire is the path of a bed.
type wire struct {
	forwarder *exec.Cmd // nil: the delay is netem's
	in        io.Closer // the forwarder's, as are out and end
	out       *bufio.Reader
	end       func() error
	start     time.Time
}

// openWire joins the networks, by netem if the kernel has netem, otherwise by a forwarder.
func (b *bed) openWire() error {
	enter, err := b.pair()
	if err != nil {
		return err
	}
	inside := strings.Join(enter, " ") + " "
	b.wire = &wire{start: time.Now()}
	if err := delayBy("", "bench0"); err == nil {
		return delayBy(inside, "bench1")
	}
	if err := commands("ip link del bench0"); err != nil {
		return err
	}
	if err := b.wire.startForwarder(); err != nil {
		return err
	}
	return commands("ip link set bench1 netns "+enter[2],
		"ip link set bench0 txqueuelen "+wireQueue, "ip addr add "+vethServer+"/24 dev bench0", "ip link set bench0 up",
		inside+"ip link set bench1 txqueuelen "+wireQueue, inside+"ip addr add "+vethClient+"/24 dev bench1", inside+"ip link set bench1 up")
}

// delayBy makes netem delay the frames sent by an end, and makes the end send each segment in a
// frame of its own.
func delayBy(inside, dev string) error {
	return commands(fmt.Sprintf("%stc qdisc add dev %s root netem delay %dus limit %s", inside, dev, wireDelay.Microseconds(), wireQueue),
		inside+"ip link set dev "+dev+" gso_max_segs 1")
}

// startForwarder starts the forwarder, which makes bench0 and bench1 in this network.
func (w *wire) startForwarder() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "_forward", wireDelay.String(), "bench0", "bench1")
	cmd.Stderr = os.Stderr
	in, out, end, err := machine.Start(cmd)
	if err != nil {
		return err
	}
	w.forwarder, w.in, w.out, w.end = cmd, in, bufio.NewReader(out), end
	if _, err := w.out.ReadString('\n'); err != nil {
		return errors.Join(fmt.Errorf("the forwarder: %w", err), w.close())
	}
	return nil
}

// close ends the forwarder.
func (w *wire) close() error {
	if w.end == nil {
		return nil
	}
	end := w.end
	w.end = nil
	return end()
}

// dropped returns the number of frames that the devices dropped on transmission.
func (b *bed) dropped() (n int64, err error) {
	for _, line := range []string{"ip -j -s link show dev bench0", strings.Join(b.enter, " ") + " ip -j -s link show dev bench1"} {
		words := strings.Fields(line)
		out, err := output(exec.Command(words[0], words[1:]...))
		if err != nil {
			return 0, err
		}
		var links []struct {
			Stats struct {
				TX struct {
					Dropped int64 `json:"dropped"`
				} `json:"tx"`
			} `json:"stats64"`
		}
		if err := json.Unmarshal(out, &links); err != nil || len(links) != 1 {
			return 0, fmt.Errorf("%s: %w: %s", line, err, out)
		}
		n += links[0].Stats.TX.Dropped
	}
	return n, nil
}

// describeWire ends the path and describes its kind and traffic.
func (b *bed) describeWire() (string, error) {
	w := b.wire
	dropped, err := b.dropped()
	if err != nil {
		return "", err
	}
	if w.forwarder == nil {
		return fmt.Sprintf("path: netem on a veth pair, %v each way, MTU 1500, no segmentation offload; %d frames dropped", wireDelay, dropped), nil
	}
	took := time.Since(w.start)
	w.in.Close() // the forwarder then writes its counts
	line, err := w.out.ReadBytes('\n')
	var p traffic
	if err := errors.Join(err, w.close(), json.Unmarshal(line, &p)); err != nil {
		return "", fmt.Errorf("the forwarder: %w", err)
	}
	state := w.forwarder.ProcessState
	return p.describe(dropped, state.UserTime()+state.SystemTime(), took), nil
}

// describe formats a forwarder's traffic.
func (p traffic) describe(dropped int64, cpu, took time.Duration) string {
	frames := max(p.Frames, 1)
	return fmt.Sprintf("path: a forwarder of our own between two tap devices (not netem, which is not here), %v each way, MTU 1500, no segmentation offload; "+
		"%d frames of at most %d bytes, %d dropped, mean delay %v, %.2f%% more than %v late; its CPU: %.1f s of %.1f s, %.2f µs a frame",
		wireDelay, p.Frames, p.Longest, dropped+p.Failed, (p.Delay / time.Duration(frames)).Round(100*time.Nanosecond),
		100*float64(p.Late)/float64(frames), frameLate, cpu.Seconds(), took.Seconds(), float64(cpu.Microseconds())/float64(frames))
}
