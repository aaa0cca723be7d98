// A read: submitted by the goroutine that has a thread for that, and completed by the one that
// reaps.

package uring

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A read is one under way. Its owner is who took it from free; between submit and done the kernel
// writes to p, which is on the heap and held here.
type read struct {
	p    []byte
	res  atomic.Int32
	done chan struct{} // one token
}

// ErrFull is of a ring that has as many reads under way as it has entries.
var ErrFull = errors.New("uring: as many reads are under way as there are entries")

// ReadAt reads once at an offset of fd, as pread(2) does, and waits for it without a thread. p is
// on the heap. It does not wait for other reads, which may be of a disk that has ceased to answer:
// see ErrFull.
func (r *Ring) ReadAt(fd int, p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var rd *read
	select {
	case rd = <-r.free:
	default:
		return 0, ErrFull
	}
	rd.p = p
	r.submit(rd, submission{op: opRead, fd: int32(fd), off: uint64(off), addr: uint64(uintptr(unsafe.Pointer(&p[0]))),
		len: uint32(len(p))})
	<-rd.done
	res := rd.res.Load()
	rd.p = nil
	r.free <- rd
	return int(max(res, 0)), errnoOf(res)
}

// submit leaves one read to the submitter.
func (r *Ring) submit(rd *read, s submission) {
	s.data = uint64(uintptr(unsafe.Pointer(rd)) - uintptr(unsafe.Pointer(&r.reads))) // never a pointer: its place in reads
	r.mu.Lock()
	// There is room: no more are under way than the ring has entries.
	r.submissions[r.tail&r.sqMask] = s
	r.tail++
	r.pending++
	r.sqTail.Store(r.tail)
	wake := !r.entering
	r.entering = true
	r.mu.Unlock()
	if wake {
		// Others that were woken together with this one are about to submit as well. The submitter
		// is a thread of its own: to wake it, and to have another thread take the processor from it
		// again, costs several times what a read does.
		runtime.Gosched()
		r.wake <- struct{}{} // has room: it is awake from here until entering is false
	}
}

// submitter tells the kernel of submissions, of several in one call, until the ring is closed. It
// has a thread of its own: pages that come are copied by the thread that has submitted the read,
// and one that waits for something else meanwhile, such as a fsync, would have the read wait for
// that too; of one that has ended its reads fail.
func (r *Ring) submitter() {
	defer close(r.gone)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range r.wake {
		r.mu.Lock()
		for r.pending > 0 {
			n := min(r.pending, enterMost)
			r.mu.Unlock()
			took := r.enter(n)
			r.mu.Lock()
			r.pending -= took
		}
		r.entering = false
		r.mu.Unlock()
	}
}

// enter tells the kernel of n submissions, and returns how many it has taken: none while it has no
// memory for them.
func (r *Ring) enter(n uint32) uint32 {
	took, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(n), 0, 0, 0, 0)
	switch errno {
	case 0:
		return uint32(took)
	case unix.EINTR:
	default:
		time.Sleep(enterSleep)
	}
	return 0
}

// enterMost is how many reads the kernel is told of in one call. A call of more than 20 µs is taken
// for one that waits by Go's runtime, which wakes a thread for the processor; and the disk begins
// with the first reads only when all of a call have been prepared.
const enterMost = 3

// enterSleep is between two attempts to tell the kernel.
const enterSleep = time.Millisecond

// reap completes reads until the ring is closed. Go's poller tells it of completions; it need not
// read the event's counter for that, as each completion is an edge of its own.
func (r *Ring) reap() {
	defer close(r.ended)
	rc, err := r.event.SyscallConn()
	if err != nil {
		return
	}
	_ = rc.Read(func(uintptr) bool {
		r.drain()
		return false
	})
}

// drain completes what there is.
func (r *Ring) drain() {
	head := r.cqHead.Load()
	for tail := r.cqTail.Load(); head != tail; tail = r.cqTail.Load() {
		for ; head != tail; head++ {
			c := &r.completions[head&r.cqMask]
			rd := &r.reads[c.data/uint64(unsafe.Sizeof(read{}))]
			rd.res.Store(c.res)
			rd.done <- struct{}{}
		}
		r.cqHead.Store(head)
	}
}
