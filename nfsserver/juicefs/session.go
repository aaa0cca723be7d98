// A server's session in the volume, continued by the next process so that its locks are held while
// clients reclaim them.

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

// JuiceFS releases a session's locks after five heartbeats of silence. A server restarted after a
// kill before that would find its own old locks conflicting with its reclaiming clients. If it
// released them at the start, clients of other servers could take them first. So the next process
// continues the session, and later releases the locks that were not reclaimed (gracelocks.go). If
// it starts when the session is about to expire, it ends the session at once, and clients reclaim
// the locks that no other client took first.
//
// Two processes with one session would both be granted the same lock, so a process never continues
// a session that may still have its own process. A file in the state directory has the session's
// number. A process locks it (flock(2)) as long as it runs. If the lock is free, with the same boot
// of the kernel and the same inode, the previous process has ended. A copied directory has another
// inode. A copied or rebooted machine has another boot_id. In both cases the previous process's
// state is unknown, and the session expires by itself, as it does without a StateDir.

// A sessionFile is that file; nil: there is none, or another process uses it, and the next process
// begins its own session.
type sessionFile struct{ *os.File }

// A sessionRecord is the file's content. A partly written one is invalid.
type sessionRecord struct {
	Session uint64
	// Since is when the session began or was continued, from the volume's records: a volume
	// restored from a copy reuses numbers.
	Since  time.Time
	Boot   string // boot_id of the kernel
	Device uint64 // with Inode, identifies the file itself
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

// earlier returns the previous process's session, and its expiry unless it is renewed; 0: unknown
// or ended.
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

// A server continues a session that has at least one heartbeat left. If after the renewal at most
// 1/lateAfter of a heartbeat was left, the session may have expired by other servers' clocks. One
// of them may be about to clean it up, together with locks taken from now on.
const lateAfter = 4

// errLate: a session was renewed too late.
var errLate = errors.New("juicefs: the session of the process before was renewed too late")

// now returns the time; a test replaces it.
var now = time.Now

// endSession ends a dead process's session: its locks cannot be reclaimed any more, and would block
// clients.
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

// record returns a session's record, with this machine's boot and this file's inode.
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

// write lets the next process continue a session. It need not be on stable storage: after a machine
// crash no process continues the session.
func (s sessionFile) write(in *meta.Session) error {
	err := s.Truncate(0)
	r, e := s.record(in)
	if err != nil || e != nil {
		return err // e: the file stays empty, and no process continues
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

// handOn lets the next process continue the new session, before it has locks. With goneOn the
// session is the previous process's, which would have expired at until, and its locks are kept.
func (f *FS) handOn(conf *meta.Config, goneOn bool, until time.Time) error {
	if f.session.File == nil {
		return nil
	}
	// Read it after the renewal: from now on it exists, with its locks, for another five
	// heartbeats.
	in, err := f.m.GetSession(conf.Sid, goneOn)
	if err != nil {
		return fmt.Errorf("juicefs: session %d: %w", conf.Sid, err)
	}
	if goneOn {
		if until.Sub(now()) < conf.Heartbeat/lateAfter {
			return errLate
		}
		f.grace.hold(f.m, in)
	}
	if err := f.session.write(in); err != nil {
		return fmt.Errorf("juicefs: session: %w", err)
	}
	return nil
}
