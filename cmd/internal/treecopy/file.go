// One regular file: written to a temporary file and renamed when complete, or written in place.

package treecopy

import (
	"context"
	"errors"
	"io/fs"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"golang.org/x/sys/unix"
)

// copyFile copies the source's bytes.
func (r *Run) copyFile(ctx context.Context, j *job) (Meta, bool) {
	src, err := j.from.Open(ctx, j.src)
	if err != nil {
		return Meta{}, r.fail(ctx, "cannot open "+r.quote(j.srcText)+" for reading", err)
	}
	defer src.Close()
	b := r.blocks.Get().(*[]byte)
	defer r.blocks.Put(b)
	c := &content{src: src, m: &j.src}
	if err := c.begin(*b); err != nil {
		return Meta{}, r.fail(ctx, "error reading "+r.quote(j.srcText), err)
	}
	r.Files.Add(1)
	if j.old != nil && !r.replaceable(j) {
		return r.writeInPlace(ctx, j, c)
	}
	if j.old != nil && !j.decided && !r.opt.Force {
		if err := j.to.Writable(ctx, *j.old); err != nil {
			return Meta{}, r.fail(ctx, "cannot create regular file "+r.quote(j.dstText), err)
		}
	}
	if j.old == nil && r.opt.InPlace {
		return r.writeNew(ctx, j, c)
	}
	m, state := r.writeTemp(ctx, j, c)
	if state == needsInPlace {
		return r.writeInPlace(ctx, j, c)
	}
	return m, state == written
}

// replaceable reports whether a new file may replace an existing target. A file with several names
// must stay one file under all names, unless the copy preserves links.
func (r *Run) replaceable(j *job) bool {
	return j.decided || !r.opt.InPlace && !j.inPlace && j.old.Mode.IsRegular() && (j.old.Nlink <= 1 || r.opt.Preserve.Links)
}

// newPerm returns the mode of a new file. If the owner or the mode will be set later, only the user
// has access before that.
func (r *Run) newPerm(j *job) fs.FileMode {
	if r.opt.Preserve.Mode || r.opt.Preserve.Owner || j.old != nil {
		return 0o600
	}
	return r.filePerm(&j.src)
}

// filePerm returns a new file's mode without -p.
func (r *Run) filePerm(m *Meta) fs.FileMode {
	if r.opt.PlainMode {
		return 0o666 &^ r.opt.Umask
	}
	return m.Mode.Perm() &^ r.opt.Umask
}

// tempState is the result for a temporary file.
type tempState uint8

const (
	failed       tempState = iota // the failure was already reported
	written                       // renamed to the target
	needsInPlace                  // could not replace the target
)

// writeTemp writes the content to a temporary file, sets its attributes and renames it. On any
// failure writeTemp removes the file, and the old target stays unchanged.
func (r *Run) writeTemp(ctx context.Context, j *job, c *content) (m Meta, state tempState) {
	what := "cannot create regular file " + r.quote(j.dstText)
	late, cancel := r.cleanupContext(ctx)
	defer cancel()
	tmp, sink, err := r.createTemp(late, j, c)
	if err != nil && j.old != nil && !j.decided && isPermissionError(err) {
		return Meta{}, needsInPlace
	}
	if err != nil {
		r.fail(ctx, what, err)
		return Meta{}, failed
	}
	open := true
	defer func() {
		if open {
			sink.Close()
		}
		if state != written {
			r.discard(ctx, j.to, tmp)
		}
	}()
	if j.old != nil && !j.decided && !(r.opt.Preserve.Mode && r.opt.Preserve.Owner) {
		old := *j.old
		if !r.opt.Privileged {
			old.Mode &^= fs.ModeSetuid | fs.ModeSetgid // as a write(2) clears them
		}
		if sink.Adopt(ctx, &old) != nil && ctx.Err() == nil {
			return Meta{}, needsInPlace
		}
	}
	if !r.fill(ctx, j, c, sink, j.old != nil) {
		return Meta{}, failed
	}
	if m, err = r.stat(ctx, j, sink); err == nil {
		err = r.finishFile(ctx, j, c, &m, sink)
	}
	open = false
	if e := sink.Close(); err == nil && e != nil {
		err = e
		r.fail(ctx, "error writing "+r.quote(j.dstText), err)
	}
	if err != nil {
		return Meta{}, failed
	}
	if r.keepsFile(ctx, j, c) && r.rewrite(late, j, c) {
		r.discard(ctx, j.to, tmp)
		m = *j.old
		m.Name = j.name
		return m, written
	}
	if err := j.to.RenameTo(ctx, tmp, j.to, j.name); err != nil {
		if j.old != nil && !j.decided && isPermissionError(err) {
			return Meta{}, needsInPlace // for example in a sticky directory
		}
		r.fail(ctx, what, err)
		return Meta{}, failed
	}
	m.Name = j.name
	return m, written
}

// keepsFile reports whether the existing file is rewritten instead of replaced. Other clients of a
// server may have it open: a replaced file is stale for them, while after a local cp(1) they could
// continue to read. If the content is a single block, it is written to both files. This costs
// little, and the file is incomplete only for a call or two. A longer write could be interrupted,
// so larger files are replaced, as are files that get their source's mode or owner.
func (r *Run) keepsFile(ctx context.Context, j *job, c *content) bool {
	if j.old == nil || j.decided || j.old.FH.Len() == 0 || c.wholeSize() < 0 || r.opt.Preserve.Mode || r.opt.Preserve.Owner {
		return false
	}
	return !r.opt.Force || j.to.Writable(ctx, *j.old) == nil
}

// rewrite writes a one-block content to the existing file while a temporary file also has the
// content. On failure the temporary file replaces the old file, so the new content is complete
// either way.
func (r *Run) rewrite(ctx context.Context, j *job, c *content) bool {
	sink, err := j.to.Overwrite(ctx, *j.old)
	if err != nil {
		return false
	}
	if err = r.pump(ctx, c, sink, true); err == nil {
		r.Bytes.Add(-int64(len(c.head))) // already counted for the temporary file
		old := *j.old
		err = r.finishFile(ctx, j, c, &old, sink)
	}
	return errors.Join(err, sink.Close()) == nil
}

// errReported stands for a failure that was already reported.
var errReported = errors.New("reported")

// stat returns a complete file's attributes.
func (r *Run) stat(ctx context.Context, j *job, sink Sink) (Meta, error) {
	m, err := sink.Stat()
	if err != nil {
		r.fail(ctx, "cannot fstat "+r.quote(j.dstText), err)
		err = errReported
	}
	return m, err
}

// finishFile sets a complete file's attributes as the options require. A replaced target had
// set-ID bits only until the first write.
func (r *Run) finishFile(ctx context.Context, j *job, c *content, m *Meta, sink Sink) error {
	if r.opt.Preserve.attrs() && !r.preserve(ctx, j.dstText, &j.src, m, c.src.ACLs, sink.SetAttr) && r.opt.move {
		return errReported // the server is gone, or ACLs could not be removed
	}
	var mode fs.FileMode
	switch {
	case r.opt.Preserve.Mode, j.inPlace:
		return nil
	case j.old == nil || j.decided:
		if mode = r.filePerm(&j.src); mode == r.newPerm(j) {
			return nil
		}
	case j.old.Mode&(fs.ModeSetuid|fs.ModeSetgid) == 0 || !r.opt.Privileged:
		return nil
	default:
		mode = j.old.Mode & permBits
	}
	if err := sink.SetAttr(ctx, Attr{SetMode: true, Mode: mode}); err != nil {
		r.fail(ctx, "preserving permissions for "+r.quote(j.dstText), err)
		return errReported
	}
	return nil
}

func (r *Run) createTemp(ctx context.Context, j *job, c *content) (name string, sink Sink, err error) {
	err = fs.ErrExist
	base := j.name
	for try := 0; errors.Is(err, fs.ErrExist) && try < maxNames; try++ {
		name = tempName(base)
		sink, err = j.to.Create(ctx, name, r.newPerm(j), c.wholeSize())
		if errors.Is(err, unix.ENAMETOOLONG) && base != "" {
			base, err = "", fs.ErrExist // the file system may permit only shorter names
		}
	}
	return name, sink, err
}

// fill writes the content. durable is set if the file replaces another file: the data must be on
// disk before the other file goes. A server's files are always on the server's disk.
func (r *Run) fill(ctx context.Context, j *job, c *content, sink Sink, durable bool) bool {
	err := r.pump(ctx, c, sink, durable)
	if err == nil {
		return true
	}
	var read *readError
	if errors.As(err, &read) {
		return r.fail(ctx, "error reading "+r.quote(j.srcText), read.err)
	}
	return r.fail(ctx, "error writing "+r.quote(j.dstText), err)
}

// writeInPlace truncates and rewrites the target, like cp: other names, readers, owner and mode are
// kept. A failure leaves a partial file.
func (r *Run) writeInPlace(ctx context.Context, j *job, c *content) (Meta, bool) {
	if c.src.Stream() && c.consumed {
		return Meta{}, r.fail(ctx, "cannot create regular file "+r.quote(j.dstText), errConsumed)
	}
	sink, err := j.to.Overwrite(ctx, *j.old)
	if err != nil && r.opt.Force && j.old.Mode.IsRegular() && isPermissionError(err) {
		if err = j.to.Remove(ctx, j.name); err == nil {
			j.old = nil
			return r.writeNew(ctx, j, c)
		}
	}
	if err != nil {
		return Meta{}, r.fail(ctx, "cannot create regular file "+r.quote(j.dstText), err)
	}
	return r.writeTo(ctx, j, c, sink)
}

// writeNew creates the target itself and writes it.
func (r *Run) writeNew(ctx context.Context, j *job, c *content) (Meta, bool) {
	sink, err := j.to.Create(ctx, j.name, r.newPerm(j), c.wholeSize())
	if err != nil {
		return Meta{}, r.fail(ctx, "cannot create regular file "+r.quote(j.dstText), err)
	}
	return r.writeTo(ctx, j, c, sink)
}

// writeTo fills a file under its final name.
func (r *Run) writeTo(ctx context.Context, j *job, c *content, sink Sink) (Meta, bool) {
	ok := r.fill(ctx, j, c, sink, false)
	var m Meta
	var err error
	if ok {
		m, err = r.stat(ctx, j, sink)
		if err == nil && (j.old == nil || j.old.Mode.IsRegular()) {
			err = r.finishFile(ctx, j, c, &m, sink)
		}
	}
	if e := sink.Close(); ok && err == nil && e != nil {
		err = e
		r.fail(ctx, "error writing "+r.quote(j.dstText), e)
	}
	if !ok && (j.old == nil || j.old.Mode.IsRegular()) {
		r.opt.Warn(r.quote(j.dstText) + " is incomplete")
	}
	m.Name = j.name
	return m, ok && err == nil
}

// errConsumed means that a stream's data went to a temporary file that could not replace the
// target.
var errConsumed = errors.New("the directory does not let a new file take its place, and the source cannot be read again")

// isPermissionError reports whether an error is about missing permission.
func isPermissionError(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EROFS) || errors.Is(err, unix.EINVAL)
}

// isLostWrites reports whether a server has restarted and needs the data again.
func isLostWrites(err error) bool { return errors.Is(err, nfsclient.ErrLostWrites) }
