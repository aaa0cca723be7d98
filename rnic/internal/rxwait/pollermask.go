// Input that Go's network poller is not told of.

package rxwait

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"golang.org/x/sys/unix"
)

// A mute takes input of a descriptor from the events that Go's network poller is told of, for as
// long as a thread sleeps for it in ppoll(2). Where the poller is told, a thread of its own waits
// in epoll_wait(2), and each input wakes two: it, which finds that no goroutine waits, and the one
// that sleeps. The scheduler's runs first as often as not, on the processor of who has sent, and an
// answer is later by all of its three system calls.
//
// There is no way to have a descriptor of package net out of the poller for a while, so its entry
// is changed where the kernel has it. The kernel says in /proc/self/fdinfo what is registered with
// an epoll instance, and by which value the poller knows it (proc_pid_fdinfo(5)); where that cannot
// be read, or is not as expected, nothing is changed. Room to write, errors and the end of the
// connection are told of as ever.
type pollerMask struct {
	slept int64  // sleeps with input, until the entry has been looked for
	state int8   // one of those below
	epoll int    // the poller's epoll instance, once it has been found
	event uint32 // what the poller has asked to be told of
	value uint64 // what it knows the descriptor by
	tally tally.Counter
}

const (
	maskUnknown int8 = iota // the entry has not been looked for
	maskRefused             // it cannot be changed
	maskOff                 // the poller is told of input
	maskOn                  // it is not
)

// maskAfter is how many sleeps with input there are at least before the entry is looked for, which
// takes as long as several of them. Where the poller has more descriptors than that there are as
// many sleeps: the kernel writes a line for each, and tells of no input of any of them meanwhile.
const maskAfter = 16

// epollSearched is below which number the poller's epoll instance is looked for.
const epollSearched = 256

// pollerEpoll is the epoll instance of Go's network poller, of which a process has one; 0: not
// found yet.
var pollerEpoll atomic.Int64

// pollerEntries is how many descriptors the poller had when an entry was looked for last.
var pollerEntries atomic.Int64

// on is called before each sleep.
func (m *pollerMask) set(fd int) {
	if m.state == maskUnknown {
		if m.slept < max(maskAfter, pollerEntries.Load()) {
			return
		}
		if err := m.find(fd); err != nil {
			m.tally.Lose()
			m.state = maskRefused
			return
		}
		m.tally.Win()
		m.state = maskOff
	}
	if m.state == maskOff && m.change(fd, m.event&^unix.EPOLLIN) == nil {
		m.state = maskOn
	}
}

// off is called before the goroutine waits in the poller. What has come already the poller is told
// of. After an error it must not wait: nobody might wake it.
func (m *pollerMask) clear(fd int) error {
	if m.state != maskOn {
		return nil
	}
	m.state = maskOff
	return os.NewSyscallError("epoll_ctl", m.change(fd, m.event))
}

// woke counts a sleep.
func (m *pollerMask) noteBlock(found bool) {
	if found && m.state == maskUnknown {
		m.slept++
	}
}

func (m *pollerMask) change(fd int, event uint32) error {
	var value [8]byte // one number to the kernel, two to package unix
	binary.NativeEndian.PutUint64(value[:], m.value)
	fields := unix.EpollEvent{Events: event, Fd: int32(binary.NativeEndian.Uint32(value[:4])), Pad: int32(binary.NativeEndian.Uint32(value[4:]))}
	return unix.EpollCtl(m.epoll, unix.EPOLL_CTL_MOD, fd, &fields)
}

// find finds the poller's entry of fd.
func (m *pollerMask) find(fd int) error {
	if ep := pollerEpoll.Load(); ep != 0 {
		return m.entry(int(ep), fd)
	}
	// It was made with the first descriptor that the poller has got, so it is among the first of
	// the process.
	var to [64]byte
	for ep := range epollSearched {
		n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(ep), to[:])
		// One of the program's own has other descriptors, or asks for other events.
		if err == nil && string(to[:n]) == "anon_inode:[eventpoll]" && m.entry(ep, fd) == nil {
			pollerEpoll.Store(int64(ep))
			return nil
		}
	}
	return errNoEntry
}

var errNoEntry = errors.New("rxwait: the network poller has no such descriptor")

// entry reads the entry of fd with an epoll instance: lines of descriptor, events and value.
func (m *pollerMask) entry(ep, fd int) error {
	text, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(ep))
	if err != nil {
		return err
	}
	n, all, name := 0, int64(0), strconv.Itoa(fd)
	for line := range bytes.Lines(text) {
		f := bytes.Fields(line)
		if len(f) < 6 || string(f[0]) != "tfd:" {
			continue
		}
		if all++; string(f[1]) != name {
			continue
		}
		event, err := strconv.ParseUint(string(f[3]), 16, 32)
		value, err2 := strconv.ParseUint(string(f[5]), 16, 64)
		if err != nil || err2 != nil {
			return errNoEntry
		}
		m.epoll, m.event, m.value = ep, uint32(event), value
		n++
	}
	const asked = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET
	if n != 1 || m.event&asked != asked {
		return errNoEntry
	}
	pollerEntries.Store(all)
	return nil
}
