// Pipes: pages of a file's content on their way to a socket, which nobody copies.

package mem

import (
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pipeBytes is how many bytes a Pipe holds at most, when they begin and end with a page of their
// file: as many as an unprivileged process can ask for (/proc/sys/fs/pipe-max-size).
const pipeBytes = 1 << 20

// PipeMin is from how many bytes on a Pipe is quicker than a copy: with 32 KiB in each reply a server that has nothing else to do
// needs less than half of the CPU time, with 8 KiB nearly as much.
const PipeMin = 32 << 10

const (
	maxPipes = 64                     // of the process, who gets none copies; see pipeLimit
	pipeIdle = 250 * time.Millisecond // a free pipe is closed after one to two of these
)

// A Pipe holds pages of a file between the call that reads them and the one that gives them to a
// socket. The kernel keeps pages, not copies: their number is fixed from the time when they are read, whatever
// becomes of the file, but what is written to the file later may be seen in them. No disk is waited for any more when they are sent.
// A Pipe has one owner at a time, from GetPipe to Put, and bytes leave it in the order in which they came.
type Pipe struct {
	r, w int // descriptors
	held int // bytes in it
	used bool
}

// freePipes are those that nobody owns, empty and open. There is a timer only while there are some.
var freePipes struct {
	mu       sync.Mutex // guards all that follows
	list     []*Pipe    // the one used last is at the end
	open     int        // pipes that there are, free or owned
	sweeping bool
}

// pipeLimit is maxPipes, or what takes a sixteenth of the descriptors that this process may have.
var pipeLimit = sync.OnceValue(func() int {
	var lim unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &lim) != nil {
		return maxPipes
	}
	return int(min(lim.Cur/16/2, maxPipes)) // two descriptors each
})

// GetPipe returns an empty Pipe, or nil where there are pipeLimit already, or the system has none for us.
func GetPipe() *Pipe {
	f := &freePipes
	f.mu.Lock()
	if n := len(f.list); n > 0 {
		p := f.list[n-1]
		f.list = f.list[:n-1]
		f.mu.Unlock()
		p.used = true
		return p
	}
	if f.open >= pipeLimit() {
		f.mu.Unlock()
		return nil
	}
	f.open++
	f.mu.Unlock()
	p := newPipe()
	if p == nil {
		f.mu.Lock()
		f.open--
		f.mu.Unlock()
	}
	return p
}

// newPipe makes a pipe of pipeBytes; nil where descriptors, or the pipe pages of this user, are used up.
func newPipe() *Pipe {
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return nil
	}
	p := &Pipe{r: fds[0], w: fds[1], used: true}
	if n, err := unix.FcntlInt(uintptr(p.w), unix.F_SETPIPE_SZ, pipeBytes); err != nil || n < pipeBytes {
		p.close()
		return nil
	}
	return p
}

func (p *Pipe) close() {
	unix.Close(p.r)
	unix.Close(p.w)
}

// PipeFits reports whether n bytes at offset off of a file fit into a Pipe: it has room for that number of pages.
func PipeFits(off uint64, n int) bool {
	return n > 0 && n <= pipeBytes && off%uint64(os.Getpagesize())+uint64(n) <= pipeBytes
}

// Put gives the Pipe back; nil is fine. With bytes left in it, which is where a connection has ended or a
// read has failed, it is closed, and so are pages of the file let go.
func (p *Pipe) Put() {
	if p == nil {
		return
	}
	f := &freePipes
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.held != 0 {
		f.open--
		p.close()
		return
	}
	f.list = append(f.list, p)
	if !f.sweeping {
		f.sweeping = true
		time.AfterFunc(pipeIdle, sweepPipes)
	}
}

// sweepPipes closes the free pipes that nobody has used since the last sweep: an idle server holds no descriptors.
func sweepPipes() {
	f := &freePipes
	f.mu.Lock()
	defer f.mu.Unlock()
	keep := f.list[:0]
	for _, p := range f.list {
		if !p.used {
			f.open--
			p.close()
			continue
		}
		p.used = false
		keep = append(keep, p)
	}
	clear(f.list[len(keep):])
	f.list = keep
	if f.sweeping = len(keep) > 0; f.sweeping {
		time.AfterFunc(pipeIdle, sweepPipes)
	}
}

// Len is how many bytes there are in the Pipe.
func (p *Pipe) Len() int { return p.held }

// Fill moves up to n bytes at offset off of the file fd into the Pipe, as the system call
// does it: fewer for a signal or at the end of the file, 0 after it. It waits for the disk. EINVAL: files of this
// file system cannot be read so.
func (p *Pipe) Fill(fd int, off int64, n int) (int, error) {
	k, err := unix.Splice(fd, &off, p.w, nil, n, unix.SPLICE_F_MOVE)
	if err != nil {
		return 0, err
	}
	p.held += int(k)
	return int(k), nil
}

// ReadFull copies the next len(b) bytes out of the Pipe, for who needs bytes in memory after all. It
// never waits: io.ErrUnexpectedEOF says that there are fewer.
func (p *Pipe) ReadFull(b []byte) error {
	for len(b) > 0 {
		n, err := unix.Read(p.r, b)
		switch {
		case err == unix.EINTR:
		case err != nil || n <= 0:
			return io.ErrUnexpectedEOF
		default:
			p.held -= n
			b = b[n:]
		}
	}
	return nil
}

// Splice moves up to n of the next bytes to a socket that does not block, and says how many it took. more: others
// follow at once, so the last packet need not leave yet. The error is a syscall.Errno, EAGAIN where
// the socket is full.
func (p *Pipe) Splice(socket uintptr, n int, more bool) (int, error) {
	flags := unix.SPLICE_F_MOVE | unix.SPLICE_F_NONBLOCK
	if more {
		flags |= unix.SPLICE_F_MORE
	}
	for {
		// The socket does not block, nor do pages wait for a disk: the runtime need not know of the call.
		k, _, errno := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(p.r), 0, socket, 0, uintptr(min(n, p.held)), uintptr(flags))
		switch {
		case errno == unix.EINTR:
		case errno != 0:
			return 0, errno
		case k == 0:
			return 0, io.ErrUnexpectedEOF
		default:
			p.held -= int(k)
			return int(k), nil
		}
	}
}
