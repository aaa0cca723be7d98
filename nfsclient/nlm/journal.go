// The journal: owners that may have locks. The next mount releases them if this process is killed.
//
// A server keeps a process's locks until it hears of a machine restart. That notice would be wrong
// for a killed process, because others on the machine have locks too. So each mount writes its
// owners to a private file, locked while the process lives. An unlocked file belongs to a killed
// process.

package nlm

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A journal is the private file with the mount's owners. Locks.mu guards it. Its first line has the
// server, the caller name and the mount's object. Each other line is an owner: svid and file
// handle. An owner that may be in the server's queue also has the first and last byte and whether
// the request is exclusive, because a queued request may become a lock.
type journal struct {
	file  *os.File
	lines int
}

const (
	journalName = "locks-" // followed by a unique suffix

	// journalSlack: a journal is rewritten without ended owners when it has this many lines above
	// twice the number of owners.
	journalSlack = 4096
)

// openJournal creates the journal with the first owner.
func (l *Locks) openJournal() error {
	file, err := os.CreateTemp(l.opt.Dir, journalName)
	if err != nil {
		return err
	}
	if err = unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	l.journal.file = file
	return l.rewrite()
}

// rewrite writes the whole journal. The caller holds l.mu.
func (l *Locks) rewrite() error {
	j := &l.journal
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %x\n", l.opt.Source, l.opt.Name, l.object)
	j.lines = 0
	for fh, f := range l.files {
		for _, o := range f.owners {
			fmt.Fprintf(&b, "%d %x\n", o.svid, fh.Bytes())
			j.lines++
			for _, w := range o.waits {
				b.WriteString(w.line())
				j.lines++
			}
		}
	}
	if err := j.file.Truncate(0); err != nil {
		return err
	}
	_, err := j.file.WriteAt([]byte(b.String()), 0)
	if err == nil {
		_, err = j.file.Seek(0, 2)
	}
	return err
}

// note adds an owner to the journal. The caller holds l.mu.
func (l *Locks) note(o *owner) { l.noteLine(fmt.Sprintf("%d %x\n", o.svid, o.fh.Bytes())) }

// noteWait adds a wait to the journal. The caller holds l.mu.
func (l *Locks) noteWait(w *wait) { l.noteLine(w.line()) }

func (w *wait) line() string {
	return fmt.Sprintf("%d %x %d %d %t\n", w.owner.svid, w.owner.fh.Bytes(), w.span.start, w.span.end, w.span.exclusive)
}

// noteLine adds a line for data already in l.files. The caller holds l.mu. An error only ends
// journaling: locks work without a journal, which matters only if the process is killed.
func (l *Locks) noteLine(line string) {
	if l.opt.Dir == "" {
		return
	}
	var err error
	switch j := &l.journal; {
	case j.file == nil:
		err = l.openJournal()
	case j.lines > 2*(int(l.ownerCount.Load())+l.queued)+journalSlack:
		err = l.rewrite()
	default:
		_, err = j.file.WriteString(line)
		j.lines++
	}
	if err != nil {
		l.opt.Dir = "" // log the error only once
		l.log(fmt.Sprintf("locks would outlive this process if it were killed: %v", err))
	}
}

// closeJournal closes the journal, and removes it if all locks are released.
func (l *Locks) closeJournal(released bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.journal.file == nil {
		return
	}
	if released {
		_ = os.Remove(l.journal.file.Name())
	}
	_ = l.journal.file.Close()
	l.journal.file = nil
}

// releaseOrphans releases locks of killed mounts of the same server. If the server does not answer,
// it leaves the journal for the next mount.
func (l *Locks) releaseOrphans() {
	paths, _ := filepath.Glob(filepath.Join(l.opt.Dir, journalName+"*")) // the pattern is valid
	for _, path := range paths {
		if file, err := os.Open(path); err == nil {
			if unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && l.releaseAll(file) {
				_ = os.Remove(path)
			}
			file.Close()
		}
	}
}

// releaseAll releases a journal's locks if the journal is for the same server. It reports success.
func (l *Locks) releaseAll(file *os.File) bool {
	lines := bufio.NewScanner(file)
	if !lines.Scan() {
		return false
	}
	var source, name string
	var object []byte
	if _, err := fmt.Sscanf(lines.Text(), "%q %q %x", &source, &name, &object); err != nil || source != l.opt.Source {
		return false
	}
	for lines.Scan() {
		e, err := parseEntry(lines.Text())
		if err != nil {
			continue // a partly written last line
		}
		lock := nlm4.Lock{Caller: []byte(name), FH: e.fh.Bytes(), Owner: object, Svid: e.svid}
		if e.waits {
			asked := lock
			asked.Offset, asked.Length = e.span.start, e.span.wireLength()
			if !l.callFinal(nlm4.ProcCancel, &nlm4.CancelArgs{Cookie: l.cookie(), Block: true, Exclusive: e.span.exclusive, Lock: asked}) {
				return false
			}
		}
		if !l.callFinal(nlm4.ProcUnlock, &nlm4.UnlockArgs{Cookie: l.cookie(), Lock: lock}) {
			return false
		}
	}
	return lines.Err() == nil
}

// callFinal sends a call for a dead process's owner, and reports whether the server answered
// definitely. A missing lock manager is no answer, because it may start a moment later.
func (l *Locks) callFinal(proc uint32, args xdr.Marshaler) bool {
	for {
		var res result
		err := l.opt.Server.NLM(l.ctx, nil, proc, args, &res)
		if err != nil {
			return false
		}
		if res.Status != nlm4.DeniedGracePeriod {
			return true
		}
		if l.pause(l.ctx, graceWait) != nil {
			return false
		}
	}
}

// An entry is a journal line after the first.
type entry struct {
	svid  int32
	fh    nfs3.FH
	waits bool // the owner may be in the server's queue for span
	span  span
}

func parseEntry(line string) (e entry, err error) {
	var text string
	if _, err = fmt.Sscanf(line, "%d %s", &e.svid, &text); err != nil {
		return e, err
	}
	b, err := hex.DecodeString(text)
	if err != nil {
		return e, err
	}
	if e.fh, err = nfs3.MakeFH(b); err != nil || strings.Count(line, " ") < 2 {
		return e, err
	}
	e.waits = true
	_, err = fmt.Sscanf(line, "%d %s %d %d %t", &e.svid, &text, &e.span.start, &e.span.end, &e.span.exclusive)
	return e, err
}
