// A read: submitted by a goroutine on a separate thread, and completed by another goroutine.

package uring

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A read is one read under way. The goroutine that took the read from free owns it. Between submit
// and done the kernel writes to p, which is on the heap and referenced here.
type read struct {
	p    []byte
	res  atomic.Int32
	done chan struct{} // holds one token
}

// ErrFull: as many reads are under way as the ring has entries.
var ErrFull = errors.New("uring: as many reads are under way as there are entries")

// ReadAt reads once at an offset of fd, as pread(2) does, and waits without a thread. p MUST be on
// the heap. ReadAt does not wait for other reads, which may be from an unresponsive disk: see
// ErrFull.
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

// submit queues one read for the submitter.
func (r *Ring) submit(rd *read, s submission) {
	s.data = uint64(uintptr(unsafe.Pointer(rd)) - uintptr(unsafe.Pointer(&r.reads))) // rd's offset in reads
	r.mu.Lock()
	// There is room, because reads has no more elements than the ring entries.
	r.submissions[r.tail&r.sqMask] = s
	r.tail++
	r.pending++
	r.sqTail.Store(r.tail)
	wake := !r.entering
	r.entering = true
	r.mu.Unlock()
	if wake {
		// Other goroutines woken together with this one will submit soon. Waking the submitter's
		// thread, and another thread to take the processor back, costs several reads' time.
		runtime.Gosched()
		r.wake <- struct{}{} // never blocks: the submitter is awake until entering is false
	}
}

// submitter passes submissions to the kernel, several in one call, until the ring is closed. It
// needs a thread of its own. The submitting thread copies arriving pages, so one that blocks
// meanwhile, for example in fsync(2), would delay the read too. If the submitting thread ends, its
// reads fail.
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

// enter passes n submissions to the kernel, and returns the number taken: none while the kernel has
// no memory for them.
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

// enterMost is the number of reads in one call. Go's runtime treats a call of more than 20 µs as
// blocking, and wakes a thread for the processor. Also, the disk begins the first reads only after
// the kernel has prepared all reads of a call.
const enterMost = 3

// enterSleep is the time between two attempts to submit.
const enterSleep = time.Millisecond

// reap completes reads until the ring is closed. Go's poller reports completions. It need not read
// the event's counter, because each completion is an edge.
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

// drain completes all reads in the completion queue.
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
