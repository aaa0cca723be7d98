// The forwarder: a path with a delay between two tap devices, for kernels without netem.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sizes of the forwarder.
const (
	frameHeader = 10                      // struct virtio_net_hdr: checksum offload
	frameLimit  = frameHeader + 14 + 1500 // Ethernet header and MTU
	frameQueue  = 1 << 13                 // frames in flight in one direction; more wait in the tap
	frameBatch  = 32                      // frames read before due frames are written
	frameRest   = 10 * time.Millisecond   // longest sleep; a sleep delays the garbage collector
	frameLate   = wireDelay / 2           // a frame written later than this is counted
)

// A delayQueue has the frames in flight in one direction, in order. It reads no clock: times are
// relative to any one moment.
type delayQueue struct {
	buf   [frameQueue][frameLimit]byte
	len   [frameQueue]int
	due   [frameQueue]time.Duration
	first int // index of the oldest frame
	n     int
}

// free returns the buffer for the next frame, or nil.
func (q *delayQueue) free() []byte {
	if q.n == frameQueue {
		return nil
	}
	return q.buf[(q.first+q.n)%frameQueue][:]
}

// push adds the first n bytes of free's buffer.
func (q *delayQueue) push(n int, due time.Duration) {
	at := (q.first + q.n) % frameQueue
	q.len[at], q.due[at] = n, due
	q.n++
}

// next returns the oldest frame and its due time, or nil.
func (q *delayQueue) next() ([]byte, time.Duration) {
	if q.n == 0 {
		return nil, 0
	}
	return q.buf[q.first][:q.len[q.first]], q.due[q.first]
}

// pop removes the oldest frame.
func (q *delayQueue) pop() { q.first, q.n = (q.first+1)%frameQueue, q.n-1 }

// A traffic counts the traffic in one direction or both.
type traffic struct {
	Frames  int64         `json:"frames"`
	Longest int           `json:"longest_bytes"` // without frameHeader
	Delay   time.Duration `json:"delay_ns"`      // sum over all frames
	Late    int64         `json:"late"`          // by more than frameLate
	Failed  int64         `json:"failed"`        // rejected by the device
}

func (p traffic) plus(o traffic) traffic {
	return traffic{p.Frames + o.Frames, max(p.Longest, o.Longest), p.Delay + o.Delay, p.Late + o.Late, p.Failed + o.Failed}
}

// A direction passes frames from one nonblocking descriptor to another. One goroutine uses it.
type direction struct {
	in, out, stop int // stop becomes readable at the end
	delay         time.Duration
	start         time.Time
	queue         delayQueue
	full          bool // out accepts no more at the moment
	passed        traffic
}

func (d *direction) now() time.Duration { return time.Since(d.start) }

// run passes frames until stop is readable. It does not unlock its thread, which therefore ends
// with the goroutine: no other goroutine runs with this timer slack and priority.
func (d *direction) run() error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("timer slack: %w", err)
	}
	// Real-time priority: a network does not wait for the CPUs of its ends, least of all for a
	// spinning end. A write includes the kernel's work for an arriving frame, which elsewhere is
	// part of an interrupt.
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1}, 0); err != nil {
		fmt.Fprintln(os.Stderr, "bench: the forwarder competes with both ends for processors:", err)
	}
	for {
		if err := d.read(); err != nil {
			return err
		}
		d.write()
		if over, err := d.wait(); over || err != nil {
			return err
		}
	}
}

// read reads the waiting frames, at most frameBatch.
func (d *direction) read() error {
	for range frameBatch {
		p := d.queue.free()
		if p == nil {
			return nil
		}
		n, err := unix.Read(d.in, p)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read a frame: %w", err)
		}
		d.queue.push(n, d.now()+d.delay)
	}
	return nil
}

// write writes the frames that are due.
func (d *direction) write() {
	d.full = false
	for {
		p, due := d.queue.next()
		now := d.now()
		if p == nil || due > now {
			return
		}
		_, err := unix.Write(d.out, p)
		switch {
		case errors.Is(err, unix.EAGAIN):
			d.full = true
			return
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			d.passed.Failed++ // the device is down
		}
		d.passed.Frames++
		d.passed.Longest = max(d.passed.Longest, len(p)-frameHeader)
		d.passed.Delay += now - due + d.delay
		if now-due > frameLate {
			d.passed.Late++
		}
		d.queue.pop()
	}
}

// wait sleeps until there is work. It blocks in a raw system call, because releasing the P and
// acquiring a P again would take longer than the rest of a frame's delay. Therefore forwardBetween
// adds Ps, and no sleep is longer than frameRest.
func (d *direction) wait() (over bool, err error) {
	fds := []unix.PollFd{{Fd: int32(d.stop), Events: unix.POLLIN}, {Fd: int32(d.in), Events: unix.POLLIN}, {Fd: -1, Events: unix.POLLOUT}}
	most := frameRest
	switch p, due := d.queue.next(); {
	case d.full:
		fds[2].Fd = int32(d.out)
	case p != nil:
		most = max(due-d.now(), 0)
	}
	if d.queue.n == frameQueue {
		fds[1].Fd = -1
	}
	t := unix.NsecToTimespec(int64(most))
	_, _, failed := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds[0])), uintptr(len(fds)), uintptr(unsafe.Pointer(&t)), 0, 0, 0)
	if failed != 0 && failed != unix.EINTR {
		return false, fmt.Errorf("ppoll: %w", failed)
	}
	return fds[0].Revents != 0, nil
}

// forwardBetween passes frames in both directions until in ends, and returns the traffic.
func forwardBetween(a, b int, delay time.Duration, in io.Reader) (traffic, error) {
	over, end, err := os.Pipe()
	if err != nil {
		return traffic{}, err
	}
	defer over.Close()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2)) // see wait
	stop, start := int(over.Fd()), time.Now()
	ways := []*direction{{in: a, out: b, stop: stop, delay: delay, start: start}, {in: b, out: a, stop: stop, delay: delay, start: start}}
	ended := make(chan error, len(ways))
	for _, d := range ways {
		go func() { ended <- d.run() }()
	}
	_, err = io.Copy(io.Discard, in)
	end.Close()
	sum := traffic{}
	for range ways {
		err = errors.Join(err, <-ended)
	}
	for _, d := range ways {
		sum = sum.plus(d.passed)
	}
	return sum, err
}

// forward runs "_forward DELAY NAME NAME": it makes both tap devices, writes a line, passes frames
// until in ends, and writes the traffic.
func forward(args []string, in io.Reader, out io.Writer) error {
	delay, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	var taps [2]int
	for i, name := range args[1:3] {
		if taps[i], err = openTap(name); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "ready")
	sum, err := forwardBetween(taps[0], taps[1], delay, in)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(sum)
}

// openTap makes a tap device. Each frame is preceded by a struct virtio_net_hdr, with which the
// kernel leaves the checksum to the device, as with a network card. The device offers no
// segmentation offload, so frames do not exceed the MTU and are not merged.
func openTap(name string) (fd int, err error) {
	if fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		return 0, fmt.Errorf("/dev/net/tun: %w", err)
	}
	r, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	r.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, r); err != nil {
		return 0, fmt.Errorf("tap %s: %w", name, err)
	}
	if err := unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, unix.TUN_F_CSUM); err != nil {
		return 0, fmt.Errorf("tap %s: offloads: %w", name, err)
	}
	return fd, nil
}
