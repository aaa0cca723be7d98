// The write check: make, write, read back, compare and remove a file.

package doctor

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

const (
	writeSize = 256 << 10
	pieceSize = 64 << 10        // limit of one READ or WRITE
	cleanTime = 5 * time.Second // limit for the removal
	skewLimit = 5 * time.Second // make and similar tools may fail beyond this
)

func asStatus(err error, status **nfsclient.StatusError) bool { return errors.As(err, status) }

// checkWrite needs write permission. The file has a unique name, is created exclusively, and is
// removed in any case. If the removal fails, the finding names the file.
func checkWrite(ctx context.Context, cu *checkup) (f Finding) {
	if !cu.Write {
		return skip("--write makes a small file there, compares it, and removes it", "not asked for")
	}
	var id [8]byte
	rand.Read(id[:]) // never fails
	name := ".nfsrdma-doctor-" + hex.EncodeToString(id[:])
	begin := cu.Now()
	node, err := cu.nfs.Create(ctx, cu.root, name, nfs3.Guarded, nfs3.Sattr{SetMode: true, Mode: 0o600}, nfs3.Verf{})
	var status *nfsclient.StatusError
	if err != nil && asStatus(err, &status) {
		return fail(cmp.Or(writeAdvice(status.Status), "see the server's log"), "cannot make %s in %s: %v", name, cu.export, err)
	}
	// After CREATE was sent the file may exist, even if the reply was lost.
	defer func() {
		if rerr := cu.removeFile(name); rerr != nil && (!errors.Is(rerr, os.ErrNotExist) || err == nil) {
			f = fail("remove it by hand", "%s; %s/%s may be left there: %v", f.Text, cu.export, name, rerr)
		}
	}()
	if err != nil {
		return fail("see the server's log", "cannot make %s: %v", name, err)
	}
	made := cu.Now()
	if err := cu.writeRead(ctx, node.FH); err != nil {
		advice := ""
		if asStatus(err, &status) { // a full disk does not suggest wrong data
			advice = writeAdvice(status.Status)
		}
		return fail(cmp.Or(advice, "do not trust this path with data before it is mended: see the server's log and dmesg"), "%v", err)
	}
	attr, err := cu.nfs.Getattr(ctx, node.FH)
	if err != nil {
		return fail("see the server's log", "GETATTR of the new file: %v", err)
	}
	return cu.writeFinding(attr, node.Attr.Mtime.Time(), begin, made)
}

// removeFile has a separate time limit, because the check's time limit may be over.
func (cu *checkup) removeFile(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), cu.timeLimit(cleanTime))
	defer cancel()
	return cu.nfs.Remove(ctx, cu.root, name)
}

// writeRead writes random bytes, commits them, reads them back and compares.
func (cu *checkup) writeRead(ctx context.Context, fh nfs3.FH) error {
	data := make([]byte, writeSize)
	rand.Read(data)
	for off := 0; off < len(data); {
		w, err := cu.nfs.Write(ctx, fh, data[off:min(off+cu.wtmax, len(data))], uint64(off), nfs3.Unstable)
		if err != nil {
			return fmt.Errorf("WRITE: %w", err)
		}
		off += w.N
	}
	if _, err := cu.nfs.Commit(ctx, fh, 0, 0); err != nil {
		return fmt.Errorf("COMMIT: %w", err)
	}
	back := make([]byte, len(data))
	for off := 0; off < len(back); {
		n, eof, err := cu.nfs.Read(ctx, fh, back[off:min(off+cu.rtmax, len(back))], uint64(off))
		if err != nil {
			return fmt.Errorf("READ: %w", err)
		}
		switch {
		case n == 0 && eof:
			return fmt.Errorf("the file ends after %d of %d bytes that were written", off, len(back))
		case n == 0: // asking again would loop forever
			return fmt.Errorf("READ at %d of %d bytes gives none, and no end of the file", off, len(back))
		}
		off += n
	}
	if !bytes.Equal(data, back) {
		return errors.New("what was read back is not what was written")
	}
	return nil
}

// writeFinding describes our identity and the server's clock by the new file, whose times were set
// between begin and made.
func (cu *checkup) writeFinding(attr nfs3.Fattr, mtime, begin, made time.Time) Finding {
	text := fmt.Sprintf("%s written, committed, read back, compared and removed; our files there belong to %d:%d", size(writeSize), attr.UID, attr.GID)
	skew := time.Duration(0)
	switch {
	case mtime.Before(begin):
		skew = mtime.Sub(begin)
	case mtime.After(made):
		skew = mtime.Sub(made)
	}
	if skew.Abs() >= time.Second {
		text += fmt.Sprintf("; the server's clock is %v %s", skew.Abs().Round(time.Second), yes(skew > 0, "ahead", "behind"))
	} else {
		text += "; the clocks agree"
	}
	switch uid, gid := uint32(os.Geteuid()), uint32(os.Getegid()); {
	case attr.UID != uid && uid == 0:
		return warn("root is squashed to that user: no_root_squash in exports(5), or nfsrdmad --no-root-squash, if root is to be root there", "%s", text)
	case attr.UID != uid:
		return warn("all users are mapped to that one (all_squash, or a server that does not run as root)", "%s", text)
	case attr.GID != gid && attr.GID != cu.rootAttr.GID:
		return warn("the group is mapped on the server", "%s", text)
	case skew.Abs() > skewLimit:
		return warn("run NTP on both: tools that compare times, such as make, will go wrong", "%s", text)
	}
	return ok("%s", text)
}

// writeAdvice returns the advice about a status of CREATE or a later call, or "".
func writeAdvice(s nfs3.Status) string {
	switch s {
	case nfs3.ErrROFS:
		return "the export is read-only: rw in exports(5), or leave out --read-only of nfsrdmad"
	case nfs3.ErrAcces, nfs3.ErrPerm:
		return "this user, as the server maps it, is not allowed to write here: chmod or chown the directory, or see root_squash and anonuid of exports(5), --no-root-squash of nfsrdmad"
	case nfs3.ErrNoSpc, nfs3.ErrDQuot:
		return "make room on the server, or raise the quota"
	case nfs3.ErrStale:
		return "mount again: the handle has ceased to be good"
	}
	return ""
}

// spread returns the least and the median of times, which must not be empty.
func spread(times []time.Duration) (least, median time.Duration) {
	slices.Sort(times)
	return times[0].Round(100 * time.Nanosecond), times[len(times)/2].Round(100 * time.Nanosecond)
}
