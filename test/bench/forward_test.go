// Tests for the forwarder. Its devices are sockets that keep frames apart, like tap devices.

package main

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestDelayQueue: frames leave in order, with their due times, and the queue's capacity is
// frameQueue.
func TestDelayQueue(t *testing.T) {
	q := new(delayQueue)
	for i := range frameQueue {
		p := q.free()
		if p == nil {
			t.Fatalf("the queue is full with %d frames", i)
		}
		binary.BigEndian.PutUint32(p, uint32(i))
		q.push(100+i%2, time.Duration(i))
	}
	if q.free() != nil {
		t.Errorf("there is room after %d frames", frameQueue)
	}
	for i := range frameQueue + 3 {
		p, due := q.next()
		if got := binary.BigEndian.Uint32(p); got != uint32(i) {
			t.Fatalf("frame %d comes as number %d", got, i)
		}
		if due != time.Duration(i) {
			t.Errorf("frame %d is due at %d", i, due)
		}
		if want := 100 + i%2; len(p) != want {
			t.Errorf("frame %d has %d bytes, want %d", i, len(p), want)
		}
		q.pop()
		if i < 3 {
			binary.BigEndian.PutUint32(q.free(), uint32(frameQueue+i))
			q.push(100+(frameQueue+i)%2, time.Duration(frameQueue+i))
		}
	}
	if p, _ := q.next(); p != nil {
		t.Errorf("a frame of %d bytes is left", len(p))
	}
}

// frameSockets returns the forwarder's socket of a device, and the network's end of it.
func frameSockets(t *testing.T) (device, network int) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("unix.Socketpair: %v", err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	must.Succeed(t, unix.SetNonblock(fds[0], true))
	return fds[0], fds[1]
}

// sendFrames sends n frames with their number and time as fast as they are taken, and closes held
// after the first half of the forwarder's capacity.
func sendFrames(fd, n int, start time.Time, held chan<- struct{}) error {
	p := make([]byte, frameLimit)
	for i := range n {
		if i == min(n, frameQueue)/2 {
			close(held)
		}
		binary.BigEndian.PutUint64(p, uint64(i))
		binary.BigEndian.PutUint64(p[8:], uint64(time.Since(start)))
		if _, err := unix.Write(fd, p[:16+i%(frameLimit-16)]); err != nil {
			return err
		}
	}
	return nil
}

// receiveFrames receives n frames, and returns an error if one is lost, out of order, or earlier
// than its delay.
func receiveFrames(fd, n int, start time.Time, delay time.Duration) error {
	p := make([]byte, 2*frameLimit)
	for i := range n {
		got, err := unix.Read(fd, p)
		if err != nil {
			return err
		}
		if number := binary.BigEndian.Uint64(p); number != uint64(i) || got != 16+i%(frameLimit-16) {
			return errors.New("frames are lost, or in another order")
		}
		if took := time.Since(start) - time.Duration(binary.BigEndian.Uint64(p[8:])); took < delay {
			return errors.New("a frame comes after " + took.String() + ", before its delay")
		}
	}
	return nil
}

// TestForwarderKeepsFramesAndDelay: frames are sent as fast as possible both ways, to receivers
// that begin late. All arrive, in order, and none before its delay.
func TestForwarderKeepsFramesAndDelay(t *testing.T) {
	const n, delay = 2*frameQueue + 100, 200 * time.Microsecond
	a, left := frameSockets(t)
	b, right := frameSockets(t)
	in, end := io.Pipe()
	type result struct {
		traffic
		err error
	}
	ended := make(chan result, 1)
	go func() {
		p, err := forwardBetween(a, b, delay, in)
		ended <- result{p, err}
	}()
	start, failed := time.Now(), make(chan error)
	for from, to := range map[int]int{left: right, right: left} {
		held := make(chan struct{})
		go func() { failed <- sendFrames(from, n, start, held) }()
		go func() {
			<-held
			failed <- receiveFrames(to, n, start, delay)
		}()
	}
	for range 4 {
		if err := <-failed; err != nil {
			t.Fatalf("failed: %v", err)
		}
	}
	end.Close()
	r := <-ended
	if r.err != nil {
		t.Error(r.err)
	}
	if r.Frames != 2*n {
		t.Errorf("%d frames were counted, want %d", r.Frames, 2*n)
	}
	if want := frameLimit - 1 - frameHeader; r.Longest != want {
		t.Errorf("the longest frame has %d bytes, want %d", r.Longest, want)
	}
	if mean := r.Delay / (2 * n); mean < delay {
		t.Errorf("the mean delay is %v, less than %v", mean, delay)
	}
	if r.Failed != 0 {
		t.Errorf("%d frames failed", r.Failed)
	}
}

func TestDescribePath(t *testing.T) {
	p := traffic{Frames: 4, Longest: 1514, Delay: 480 * time.Microsecond, Late: 1, Failed: 1}
	got := p.describe(2, 8*time.Microsecond, time.Second)
	for _, want := range []string{"not netem", "4 frames of at most 1514 bytes", "3 dropped", "mean delay 120µs", "25.00% more than 50µs late", "2.00 µs a frame"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}
