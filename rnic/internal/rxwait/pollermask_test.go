// What the network poller is told of a socket that a thread sleeps for.

package rxwait

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// polled is the descriptor of a socket that the network poller has, for as long as the test runs.
func polled(t *testing.T) (fd int) {
	t.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	rc, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := rc.Control(func(d uintptr) { fd = int(d) }); err != nil {
		t.Fatal(err)
	}
	return fd
}

// An entry is changed in nothing but input, once there have been some sleeps, and is as it was
// afterwards.
func TestMask(t *testing.T) {
	fd := polled(t)
	var was pollerMask
	if err := was.find(fd); err != nil {
		t.Fatal(err)
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
		t.Errorf("to find an entry takes %v allocations", n)
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

// Where the poller has many descriptors an entry is looked for after as many sleeps.
func TestMaskAmongMany(t *testing.T) {
	fd := polled(t)
	for range 2 * maskAfter {
		polled(t)
	}
	if err := new(pollerMask).find(fd); err != nil {
		t.Fatal(err)
	}
	defer pollerEntries.Store(0)
	var m pollerMask
	for range 2 * maskAfter {
		if m.set(fd); m.state != maskUnknown {
			t.Fatalf("looked for after %d sleeps", m.slept)
		}
		m.noteBlock(true)
	}
	for range pollerEntries.Load() {
		m.noteBlock(true)
	}
	if m.set(fd); m.state != maskOn {
		t.Errorf("state %d after %d sleeps", m.state, m.slept)
	}
	if err := m.clear(fd); err != nil {
		t.Error(err)
	}
}

// A descriptor that the poller does not have is left alone, also where an epoll instance of the
// program's own has it.
func TestMaskRefused(t *testing.T) {
	pollerEpoll.Store(0) // it is found again
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ep)
	if err := unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, pipe[0], &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT}); err != nil {
		t.Fatal(err)
	}
	m := pollerMask{slept: maskAfter}
	if m.set(pipe[0]); m.state != maskRefused {
		t.Fatalf("state %d", m.state)
	}
	if m.set(pipe[0]); m.state != maskRefused || m.clear(pipe[0]) != nil {
		t.Errorf("state %d", m.state)
	}
	if m = (pollerMask{}); m.find(polled(t)) != nil || pollerEpoll.Load() == int64(ep) {
		t.Error("the poller was not found afterwards, or is the program's own")
	}
}

// After a change that failed the goroutine must not wait in the poller.
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
