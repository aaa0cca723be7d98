//go:build linux

// Threads that receive take the processor from nobody while there is a stream of packets.

package udp

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A stream is what a socket knows of the bytes that it moves, and the policy of the threads that do
// it.
//
// A thread that is woken takes the processor from one that runs, if that has had its share lately.
// Where both of two processors are busy with packets, a receiver that is woken for each message of
// UDP interrupts who sends them, its peer or another thread of its process, and both can stay on
// one processor for milliseconds while the other one has nothing to do. A thread of SCHED_BATCH
// (sched(7)) waits until the other one sleeps or its time is over, finds more packets then, and
// answers them together.
//
// Where packets are few a thread that waits for its turn would only be late. So threads are given
// that policy while the socket moves many bytes, when the receive loop runs on them; afterwards all
// threads of the process are what they were. What the process starts meanwhile, threads and other
// programs, inherits it; the programs keep it. A process whose user has chosen a policy is left
// alone. It takes no privilege, but a filter of system calls may forbid it, and then nothing
// changes.
type stream struct {
	threads *policies    // set once
	moved   atomic.Int64 // bytes, both ways

	mu          sync.Mutex   // before policies.mu
	since, last time.Time    // guarded by mu, as is what follows: when moved was looked at; when there were many
	seen        int64        // of moved
	many        bool         // bytes of late
	on          bool         // the stream has begun, and not ended
	batched     map[int]bool // threads that were made SCHED_BATCH in it
}

// policies are those of the threads of a process, which its streams share.
type policies struct {
	scheduler
	first sync.Once
	never atomic.Bool // they are not ours to choose, or a change is forbidden

	mu      sync.Mutex // of changes; taken last of all
	streams int
}

// A scheduler is what the kernel does for threads, which a test does without one.
type scheduler interface {
	current() (thread int)
	policy(thread int) (int, error)
	setPolicy(thread, policy int) error
	all() []int
}

var ownThreads = policies{scheduler: new(kernel)}

// newStream is for a socket that has moved nothing yet.
func newStream(p *policies) *stream {
	p.first.Do(func() {
		if now, err := p.policy(p.current()); err != nil || now != schedOther {
			p.never.Store(true)
		}
	})
	return &stream{threads: p, batched: make(map[int]bool)}
}

// The policies of sched(7) that are of interest.
const (
	schedOther = 0
	schedBatch = 3
)

// There are many bytes when streamBytes move in streamTime, which is 125 MiB/s; messages of some
// hundred bytes, as fast as they can be answered, are half of that. A stream ends when there were
// no longer many for streamRest.
const (
	streamTime  = time.Millisecond
	streamBytes = 128 << 10
	streamRest  = 20 * time.Millisecond
)

// came has the policy of the thread suit what the socket moves, and reports whether a stream has
// begun. The receive loop calls it with packets in hand.
func (s *stream) came(now time.Time) (began bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(now)
	if !s.many || s.threads.never.Load() {
		s.stop()
		return false
	}
	began = !s.on
	s.batch()
	return began
}

// goesOn reports whether there is a stream still, and ends one that has no longer many bytes: maybe
// nothing comes any more.
func (s *stream) goesOn(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(now)
	if !s.many {
		s.stop()
	}
	return s.on
}

// end is that of the stream, if there is one.
func (s *stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop()
}

// count finds out whether there are many bytes. The caller holds mu, as do those of what follows.
func (s *stream) count(now time.Time) {
	took := now.Sub(s.since)
	if took < streamTime {
		return
	}
	moved := s.moved.Load()
	if moved-s.seen >= streamBytes*int64(took/streamTime) {
		s.many, s.last = true, now
	} else if now.Sub(s.last) >= streamRest {
		s.many = false
	}
	s.since, s.seen = now, moved
}

// batch makes the thread that runs SCHED_BATCH.
func (s *stream) batch() {
	p, id := s.threads, s.threads.current()
	if s.batched[id] {
		return
	}
	p.mu.Lock()
	if !s.on {
		s.on = true
		p.streams++
	}
	s.batched[id] = true
	err := p.setPolicy(id, schedBatch)
	p.mu.Unlock()
	if err != nil {
		p.never.Store(true)
		s.stop()
	}
}

// stop ends the stream. With the last one of the process all threads become what they were.
func (s *stream) stop() {
	if !s.on {
		return
	}
	s.on = false
	clear(s.batched)
	p := s.threads
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams--; p.streams == 0 {
		p.restore()
	}
}

// restore goes over the threads until none is SCHED_BATCH: one that was may have started another
// since they were listed.
func (p *policies) restore() {
	for again := true; again; {
		again = false
		for _, id := range p.all() {
			if now, err := p.policy(id); err == nil && now == schedBatch && p.setPolicy(id, schedOther) == nil {
				again = true
			}
		}
	}
}

// kernel is the scheduler of this process. It allocates nothing: where the load has streams begin
// and end all the time, so it would be.
type kernel struct {
	room    [2048]byte // of all, which is called by one goroutine at a time, as is what follows
	threads []int
}

func (*kernel) current() int { return unix.Gettid() }

func (*kernel) policy(thread int) (int, error) {
	p, _, e := unix.RawSyscall(unix.SYS_SCHED_GETSCHEDULER, uintptr(thread), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(p), nil
}

// setPolicy is sched_setscheduler(2), which keeps the nice value. Where systemd's RestrictRealtime=
// forbids sched_setattr(2), it does not forbid this.
func (*kernel) setPolicy(thread, policy int) error {
	priority := int32(0)
	_, _, e := unix.RawSyscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(thread), uintptr(policy), uintptr(unsafe.Pointer(&priority)))
	if e != 0 {
		return e
	}
	return nil
}

// ownTasks is the directory that has one for each thread, as system calls take it.
var ownTasks = [16]byte([]byte("/proc/self/task\x00"))

// Of struct linux_dirent64, getdents64(2).
const (
	direntLen  = 16
	direntName = 19
)

func (k *kernel) all() []int {
	k.threads = k.threads[:0]
	cwd := unix.AT_FDCWD // as a constant it is out of range
	fd, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(cwd), uintptr(unsafe.Pointer(&ownTasks[0])), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0, 0, 0)
	if e != 0 {
		return nil
	}
	defer unix.Close(int(fd))
	for {
		n, err := unix.Getdents(int(fd), k.room[:])
		if err != nil || n <= 0 {
			return k.threads
		}
		for b := k.room[:n]; len(b) > direntName; b = b[binary.NativeEndian.Uint16(b[direntLen:]):] {
			if id := number(b[direntName:]); id > 0 {
				k.threads = append(k.threads, id)
			}
		}
	}
}

// number is the decimal number that a string of C is, 0 if it is none.
func number(b []byte) (n int) {
	for _, c := range b {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}
