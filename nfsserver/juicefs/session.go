// The session of a server in the volume, which goes on with the next process: its locks are held while clients reclaim them.

package juicefs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
)

// JuiceFS releases the locks of a session that it has not heard of for five heartbeats. A server that is killed and started again before that
// would find its own locks in the way of its clients, who reclaim them at once; and were they released at the start, clients of other servers
// could have them first. So the next process goes on with the session. What is not reclaimed it releases (kept.go).
// One that comes so late that the session is about to end has it end at once, and clients reclaim what nobody else has had first.
//
// Two processes with one session would both be given the same lock, so no process goes on with a
// session whose own may still run. A file of the state directory has the session's number, and is
// locked (flock(2)) by the process for as long as it runs: who has that lock in the same run of the
// same kernel, on the same inode, knows that the process before has ended. A copy of the directory
// has another inode, and a copy of the machine, or one that has started anew, has another boot_id:
// nothing is known there of the process before, and the session ends in its own time, as it does
// without this.

// A sessionFile is that file; nil: there is none, or another process uses it, and the next one begins a session of its own.
type sessionFile struct{ *os.File }

// A sessionRecord is what the file has. One that was not written to its end is none.
type sessionRecord struct {
	Session uint64
	// Since is when the session began, or a process went on with it, as the volume has it: a volume that is restored from a copy
	// gives numbers for the second time.
	Since  time.Time
	Boot   string // boot_id, of the run of the kernel
	Device uint64 // with Inode, the file itself
	Inode  uint64
}

// openSession opens the file of a volume's session in a directory.
func openSession(dir, uuid string) (sessionFile, error) {
	if dir == "" {
		return sessionFile{}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return sessionFile{}, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "juicefs-"+uuid), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return sessionFile{}, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return sessionFile{}, f.Close()
	}
	return sessionFile{f}, nil
}

// earlier is the number of the session of the process before, and when it ends unless it is renewed; 0: none is known, or it has ended.
func (s sessionFile) earlier(m meta.Meta) (sid uint64, until time.Time) {
	r, err := s.read()
	if err != nil {
		return 0, until
	}
	here, err := s.record(&meta.Session{})
	if err != nil || r.Boot != here.Boot || r.Device != here.Device || r.Inode != here.Inode {
		return 0, until
	}
	in, err := m.GetSession(r.Session, false)
	if err != nil || !in.MountTime.Equal(r.Since) {
		return 0, until
	}
	return r.Session, in.Expire
}

// A server goes on with a session that has a heartbeat left to be renewed in. With lateAfter of a
// heartbeat left, or less, when it has been, by the clocks of other servers it had perhaps ended:
// one of them may be about to clean it up, and locks that are taken by it from now on would go with
// it.
const lateAfter = 4

// errLate: a session has been renewed too late.
var errLate = errors.New("juicefs: the session of the process before was renewed too late")

// now is the time; a test has another.
var now = time.Now

// endSession ends a session of a process that has ended: nobody can reclaim its locks, and they are in the way of who could by another.
func endSession(url string, conf *meta.Config, sid uint64) error {
	its := *conf
	its.Sid = sid
	m, _, err := load(url, &its)
	if err != nil {
		return err
	}
	return errors.Join(m.CloseSession(), m.Shutdown())
}

func (s sessionFile) read() (r sessionRecord, err error) {
	if s.File == nil {
		return r, os.ErrNotExist
	}
	b, err := io.ReadAll(io.NewSectionReader(s.File, 0, 1<<12))
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	return r, err
}

// record is what is written of a session here and now.
func (s sessionFile) record(in *meta.Session) (sessionRecord, error) {
	r := sessionRecord{Session: in.Sid, Since: in.MountTime}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return r, err
	}
	r.Boot = strings.TrimSpace(string(boot))
	info, err := s.Stat()
	if err != nil {
		return r, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || r.Boot == "" {
		return r, errors.ErrUnsupported
	}
	r.Device, r.Inode = uint64(st.Dev), st.Ino
	return r, nil
}

// write has the next process go on with a session. It need not be on stable storage: nobody goes on after a crash of the machine.
func (s sessionFile) write(in *meta.Session) error {
	err := s.Truncate(0)
	r, e := s.record(in)
	if err != nil || e != nil {
		return err // e: an empty file, and no next process goes on
	}
	b, err := json.Marshal(r)
	if err == nil {
		_, err = s.WriteAt(b, 0)
	}
	return err
}

func (s sessionFile) close() {
	if s.File != nil {
		s.Close()
	}
}

// handOn has the next process go on with the session that has begun, before it has locks. With
// goneOn it is that of the process before, which would have ended at the time until: the locks of
// that are held.
func (f *FS) handOn(conf *meta.Config, goneOn bool, until time.Time) error {
	if f.session.File == nil {
		return nil
	}
	// It is read after it has been renewed: from here on it is there, with what it has, for another five heartbeats.
	in, err := f.m.GetSession(conf.Sid, goneOn)
	if err != nil {
		return fmt.Errorf("juicefs: session %d: %w", conf.Sid, err)
	}
	if goneOn {
		if until.Sub(now()) < conf.Heartbeat/lateAfter {
			return errLate
		}
		f.kept.hold(f.m, in)
	}
	if err := f.session.write(in); err != nil {
		return fmt.Errorf("juicefs: session: %w", err)
	}
	return nil
}
