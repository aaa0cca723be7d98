// A worker: an actor that uses a directory through system calls.

package several

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// An Actor runs steps, one at a time, in the schedule's directory.
type Actor interface {
	Do(dir string, s Step) (Outcome, error)
}

// A Worker is an actor in this process.
type Worker struct {
	root  string
	files map[int]int // descriptors, by the steps' numbers
}

// NewWorker returns a worker in a directory.
func NewWorker(root string) *Worker { return &Worker{root: root, files: make(map[int]int)} }

// A message is a step for a process, in a directory below the actor's.
type message struct {
	Dir  string
	Step Step
}

// Serve makes a worker run the steps read from in, and writes the outcomes to out, until in ends.
func Serve(root string, in io.Reader, out io.Writer) error {
	w := NewWorker(root)
	steps, outcomes := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	for {
		var m message
		if err := steps.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		o, err := w.Do(m.Dir, m.Step)
		if err != nil {
			return err
		}
		if err := outcomes.Encode(o); err != nil {
			return err
		}
	}
}

// A Remote is an actor served by Serve at the other end of two streams.
type Remote struct {
	in  *json.Encoder
	out *json.Decoder
}

// NewRemote returns an actor that writes its steps to in and reads the outcomes from out.
func NewRemote(in io.Writer, out io.Reader) *Remote {
	return &Remote{json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))}
}

// Do makes the other process run a step.
func (r *Remote) Do(dir string, s Step) (o Outcome, err error) {
	if err = r.in.Encode(message{dir, s}); err == nil {
		err = r.out.Decode(&o)
	}
	return o, err
}

// Do runs a step.
func (w *Worker) Do(dir string, s Step) (o Outcome, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		v := recover()
		if _, fault := v.(interface{ Addr() uintptr }); fault {
			o = Outcome{Err: "SIGBUS"} // access to a mapped page past the end
		} else if v != nil {
			panic(v)
		}
	}()
	dir = filepath.Join(w.root, dir)
	switch s.Op {
	case mkdir:
		return w.outcome(0, unix.Mkdir(dir, 0o777)), nil
	case clear:
		return w.outcome(0, w.clear(dir, s.Flags)), nil
	case Open, Create, Unlink, Rename, Truncate, Stat, ReadDir:
		return w.name(dir, s), nil
	}
	fd, ok := w.files[s.Fd]
	if !ok {
		return o, fmt.Errorf("step %q: file #%d is not open", s, s.Fd)
	}
	return w.file(fd, s), nil
}

// outcome returns the count of a call, or the name of its error.
func (w *Worker) outcome(n int64, err error) Outcome {
	var errno unix.Errno
	switch {
	case err == nil:
		return Outcome{N: n}
	case errors.As(err, &errno):
		return Outcome{Err: unix.ErrnoName(errno)}
	}
	return Outcome{Err: err.Error()}
}

// clear closes all files, and with "all" removes the directory.
func (w *Worker) clear(dir, how string) error {
	for n, fd := range w.files {
		unix.Close(fd)
		delete(w.files, n)
	}
	if how != "all" {
		return nil
	}
	// On a mount, the last close of a removed file removes its hidden name after close(2) has
	// returned, possibly after RemoveAll has read the names.
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := os.RemoveAll(dir)
		if !errors.Is(err, unix.ENOTEMPTY) || time.Since(began) > time.Minute {
			return err
		}
	}
}

// name runs a step on a name.
func (w *Worker) name(dir string, s Step) Outcome {
	path := filepath.Join(dir, s.Name)
	switch s.Op {
	case Open, Create:
		flags, byFcntl := openFlags(s), 0
		if strings.Contains(s.Flags, " fcntl") {
			byFcntl = flags & unix.O_APPEND
		}
		fd, err := unix.Open(path, flags&^byFcntl|unix.O_CLOEXEC, 0o644)
		if err == nil {
			w.files[s.Fd] = fd
		}
		if err == nil && byFcntl != 0 {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, byFcntl)
		}
		return w.outcome(0, err)
	case Unlink:
		return w.outcome(0, unix.Unlink(path))
	case Rename:
		return w.outcome(0, unix.Rename(path, filepath.Join(dir, s.To)))
	case Truncate:
		return w.outcome(0, unix.Truncate(path, s.Off))
	case Stat:
		var st unix.Stat_t
		err := unix.Stat(path, &st)
		return w.status(&st, err)
	}
	f, err := os.Open(dir)
	if err != nil {
		return w.outcome(0, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	// A file removed while open has a hidden name until the file is closed.
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(n, ".nfs") })
	slices.Sort(names)
	o := w.outcome(0, err)
	o.Names = names
	return o
}

// openFlags returns a step's flags for open(2).
func openFlags(s Step) int {
	flags := unix.O_RDONLY
	for _, f := range strings.Fields(s.Flags) {
		flags |= map[string]int{"w": unix.O_RDWR, "append": unix.O_APPEND, "trunc": unix.O_TRUNC, "creat": unix.O_CREAT}[f]
	}
	if s.Op == Create {
		flags |= unix.O_RDWR | unix.O_CREAT | unix.O_EXCL
	}
	return flags
}

// SetTimes is above all times set by steps; later times come from the server's clock.
const SetTimes = 1_200_000_000

func (w *Worker) status(st *unix.Stat_t, err error) Outcome {
	o := w.outcome(st.Size, err)
	if err != nil {
		return o
	}
	o.Mode = st.Mode & 0o7777
	if st.Mtim.Sec < SetTimes {
		o.Time = st.Mtim.Sec
	}
	return o
}

// file runs a step on an open file.
func (w *Worker) file(fd int, s Step) Outcome {
	switch s.Op {
	case Close:
		delete(w.files, s.Fd)
		return w.outcome(0, unix.Close(fd))
	case FTruncate:
		return w.outcome(0, unix.Ftruncate(fd, s.Off))
	case Fallocate:
		return w.outcome(0, unix.Fallocate(fd, 0, s.Off, s.N))
	case FChmod:
		return w.outcome(0, unix.Fchmod(fd, uint32(s.Val)))
	case FTimes:
		// Through /proc, because futimens is utimensat without a path, which package unix lacks.
		at := unix.Timespec{Sec: int64(s.Val)}
		return w.outcome(0, unix.UtimesNanoAt(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", fd), []unix.Timespec{at, at}, 0))
	case FSync:
		return w.outcome(0, unix.Fsync(fd))
	case FSetACL:
		return w.outcome(0, unix.Fsetxattr(fd, aclName, aclOf(s.Val), 0))
	case FGetACL:
		return w.getACL(fd)
	case Lock:
		return w.outcome(0, lock(fd, s.Flags, false))
	case Unlock:
		return w.outcome(0, lock(fd, s.Flags, true))
	case FStat:
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		return w.status(&st, err)
	case SeekEnd:
		return w.outcome(unix.Seek(fd, 0, unix.SEEK_END))
	case PWrite, Append, SeekWrite, Store, CopyRange:
		return w.write(fd, s)
	}
	return w.read(fd, s)
}

// lock takes or releases a lock on the whole file.
func lock(fd int, how string, unlock bool) error {
	kind, op := int16(unix.F_WRLCK), unix.LOCK_EX|unix.LOCK_NB
	switch {
	case unlock:
		kind, op = unix.F_UNLCK, unix.LOCK_UN
	case shared(how):
		kind, op = unix.F_RDLCK, unix.LOCK_SH|unix.LOCK_NB
	}
	if byFlock(how) {
		return unix.Flock(fd, op)
	}
	return unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unix.Flock_t{Type: kind})
}
