// Masking: Go's network poller gets no events of input that a thread waits for.

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

// A pollerMask removes input from the events of a descriptor in Go's network poller, for as long as
// a thread blocks for that input in ppoll(2). Without the mask each input wakes two threads: the
// blocked one, and the poller's thread in epoll_wait(2), which finds no waiting goroutine. Often
// the poller's thread runs first, on the sender's processor, and delays the reply by its three
// system calls.
//
// Package net cannot take a descriptor out of the poller for a while, so the mask changes the
// poller's entry in the kernel. /proc/self/fdinfo shows the entries of an epoll instance, with the
// value by which the poller knows each entry (proc_pid_fdinfo(5)). If fdinfo cannot be read, or is
// not as expected, the mask changes nothing. Room to write, errors and the end of the connection
// stay unmasked.
type pollerMask struct {
	slept int64 // blocks with input, until the entry has been looked for
	state int8
	epoll int    // the poller's epoll instance, once found
	event uint32 // events that the poller asked for
	value uint64 // by which the poller knows the entry
	tally tally.Counter
}

const (
	maskUnknown int8 = iota // the entry has not been looked for
	maskRefused             // the entry cannot be changed
	maskOff                 // the poller gets events of input
	maskOn                  // the poller gets no events of input
)

// pollerEpoll is the epoll instance of Go's network poller; 0: not found yet. Go's runtime has one
// in a process, so no Device owns it.
var pollerEpoll atomic.Int64

// pollerEntries is the number of the poller's entries at the last search for an entry.
var pollerEntries atomic.Int64

// set begins masking, if it pays; it is called before each block.
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

// clear is called before the goroutine parks in the poller, which then gets an event for earlier
// input too. After an error the goroutine MUST NOT park, for no input would wake it.
func (m *pollerMask) clear(fd int) error {
	if m.state != maskOn {
		return nil
	}
	m.state = maskOff
	return os.NewSyscallError("epoll_ctl", m.change(fd, m.event))
}

// noteBlock counts a block with input.
func (m *pollerMask) noteBlock(found bool) {
	if found && m.state == maskUnknown {
		m.slept++
	}
}

func (m *pollerMask) change(fd int, event uint32) error {
	var value [8]byte // one number to the kernel, two fields in package unix
	binary.NativeEndian.PutUint64(value[:], m.value)
	fields := unix.EpollEvent{Events: event, Fd: int32(binary.NativeEndian.Uint32(value[:4])), Pad: int32(binary.NativeEndian.Uint32(value[4:]))}
	return unix.EpollCtl(m.epoll, unix.EPOLL_CTL_MOD, fd, &fields)
}

// find finds the poller's entry of fd.
func (m *pollerMask) find(fd int) error {
	if ep := pollerEpoll.Load(); ep != 0 {
		return m.entry(int(ep), fd)
	}
	// The instance was made with the poller's first descriptor, so its number is among the lowest.
	var to [64]byte
	for ep := range epollSearched {
		n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(ep), to[:])
		// An instance that the program made itself has other descriptors, or asks for other events.
		if err == nil && string(to[:n]) == "anon_inode:[eventpoll]" && m.entry(ep, fd) == nil {
			pollerEpoll.Store(int64(ep))
			return nil
		}
	}
	return errNoEntry
}

var errNoEntry = errors.New("rxwait: the network poller has no such descriptor")

// entry reads the entry of fd in an epoll instance: lines of descriptor, events and value.
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
