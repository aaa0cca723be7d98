// The events that the network poller receives for a socket while a thread blocks on it.

package rxwait

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// polled returns the descriptor of a socket that the network poller has while the test runs.
func polled(t *testing.T) (fd int) {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatalf("ListenUDP: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	rc, err := c.SyscallConn()
	if err != nil {
		t.Fatalf("SyscallConn: %v", err)
	}
	if err := rc.Control(func(d uintptr) { fd = int(d) }); err != nil {
		t.Fatalf("Control: %v", err)
	}
	return fd
}

// TestMask: after some blocks, a mask removes input from the events of an epoll entry, and nothing
// else. Clearing it restores the entry.
func TestMask(t *testing.T) {
	fd := polled(t)
	var was pollerMask
	if err := was.find(fd); err != nil {
		t.Fatalf("find: %v", err)
	}
	now := func() (event uint32) {
		t.Helper()
		m := pollerMask{}
		if err := m.find(fd); err == nil {
			event = m.event
		} else if m.event == 0 {
			t.Fatal(err)
		} else {
			event = m.event // found, without input
		}
		if m.value != was.value {
			t.Fatalf("the value is %#x, was %#x", m.value, was.value)
		}
		return event
	}
	if n := testing.AllocsPerRun(10, func() { m := pollerMask{}; _ = m.find(fd) }); n > 100 {
		t.Errorf("finding an entry takes %v allocations, want 100 at most", n)
	}
	var m pollerMask
	for range maskAfter {
		if m.set(fd); now() != was.event {
			t.Fatal("changed too early")
		}
		m.noteBlock(true)
	}
	for range 2 {
		if m.set(fd); now() != was.event&^unix.EPOLLIN {
			t.Fatalf("events are %#x, were %#x", now(), was.event)
		}
		m.noteBlock(false)
		if err := m.clear(fd); err != nil || now() != was.event {
			t.Fatalf("%v; events are %#x, were %#x", err, now(), was.event)
		}
	}
}

// TestMaskAmongMany: with many descriptors in the poller, a Blocker searches for its entry only
// after as many blocks.
func TestMaskAmongMany(t *testing.T) {
	fd := polled(t)
	for range 2 * maskAfter {
		polled(t)
	}
	if err := new(pollerMask).find(fd); err != nil {
		t.Fatalf("find: %v", err)
	}
	defer pollerEntries.Store(0)
	var m pollerMask
	for range 2 * maskAfter {
		if m.set(fd); m.state != maskUnknown {
			t.Fatalf("the entry is looked for after %d blocks", m.slept)
		}
		m.noteBlock(true)
	}
	for range pollerEntries.Load() {
		m.noteBlock(true)
	}
	if m.set(fd); m.state != maskOn {
		t.Errorf("state %d after %d blocks, want %d", m.state, m.slept, maskOn)
	}
	if err := m.clear(fd); err != nil {
		t.Errorf("clear: %v", err)
	}
}

// TestMaskRefused: a mask leaves a descriptor alone that the poller does not have, even if an epoll
// instance made by the program has it.
func TestMaskRefused(t *testing.T) {
	pollerEpoll.Store(0) // the next search finds the epoll instance again
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatalf("Pipe2: %v", err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatalf("EpollCreate1: %v", err)
	}
	defer unix.Close(ep)
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, pipe[0], &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT}); err != nil {
		t.Fatalf("EpollCtl: %v", err)
	}
	m := pollerMask{slept: maskAfter}
	if m.set(pipe[0]); m.state != maskRefused {
		t.Fatalf("state %d", m.state)
	}
	if m.set(pipe[0]); m.state != maskRefused || m.clear(pipe[0]) != nil {
		t.Errorf("state %d", m.state)
	}
	if m = (pollerMask{}); m.find(polled(t)) != nil || pollerEpoll.Load() == int64(ep) {
		t.Error("the poller was not found after that, or is the program's instance")
	}
}

// TestUnmaskFails: an entry that cannot be restored is an error, so that the goroutine does not
// park.
func TestUnmaskFails(t *testing.T) {
	fd := polled(t)
	s := Blocker{mask: pollerMask{slept: maskAfter}}
	if s.mask.set(fd); s.mask.state != maskOn {
		t.Fatalf("state %d", s.mask.state)
	}
	s.mask.epoll = fd // no epoll instance
	if s.Unmask(fd) == nil {
		t.Error("no error")
	}
}
