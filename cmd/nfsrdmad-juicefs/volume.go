// Converts the arguments of serve to volumes.

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"
	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/volumes"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs"
	"github.com/sirupsen/logrus"
)

// settings are the flags of serve that nfsrdmad lacks.
type settings struct{ volumes.Serve }

func kind() *program.Kind {
	var s settings
	return volumes.Kind(&s.Serve, s.volume, format)
}

const (
	leastBuffer    = 32 << 20 // JuiceFS's minimum
	leastHeartbeat = time.Second
)

// options validates the flags.
func (s *settings) options(readOnly bool) (o juicefs.Options, err error) {
	o = juicefs.Options{Dir: s.Subdir, CacheDir: s.CacheDir, UploadLimit: s.UploadLimit, DownloadLimit: s.DownloadLimit, MaxUploads: s.MaxUploads,
		Heartbeat: s.Heartbeat, Retries: s.Retries, SharedReplies: s.SharedReplies, ReadOnly: readOnly}
	cache, err := program.ParseSize(s.CacheSize)
	if err != nil {
		return o, fmt.Errorf("--cache-size: %w", err)
	}
	buffer, err := program.ParseSize(s.BufferSize)
	switch {
	case err != nil:
		return o, fmt.Errorf("--buffer-size: %w", err)
	case buffer < leastBuffer:
		return o, fmt.Errorf("--buffer-size %s: want at least 32M", s.BufferSize)
	case s.Heartbeat < leastHeartbeat:
		return o, fmt.Errorf("--heartbeat %v: want at least 1s", s.Heartbeat)
	case s.UploadLimit < 0 || s.DownloadLimit < 0 || s.MaxUploads < 1 || s.Retries < 1 || s.TrashDays < 0:
		return o, errors.New("--upload-limit, --download-limit and --trash-days are not negative, --max-uploads and --io-retries are at least 1")
	}
	if s.CacheDir != "" {
		o.CacheSize = uint64(cache)
	}
	o.BufferSize = uint64(buffer)
	return o, nil
}

// volume returns the volume for an argument.
func (s *settings) volume(arg string, p program.Settings) (v program.Volume, err error) {
	o, err := s.options(p.ReadOnly)
	if err != nil {
		return v, err
	}
	if p.Locks { // without a StateDir, the previous process's locks could not be reclaimed
		o.StateDir = p.StateDir
	}
	at, name := cutName(arg)
	if !strings.Contains(at, "://") {
		return s.directory(at, name, o)
	}
	o.Meta = at
	v = program.Volume{Label: juicefs.Label(at), Name: name, Open: func() (nfsserver.FS, error) { return open(o) }}
	if name == "" {
		if name, err = juicefs.Name(at); err != nil {
			return v, fmt.Errorf("%s: %w", v.Label, err)
		}
		v.Name = "/" + name
	}
	return v, nil
}

// directory returns a volume in a local directory, which is created when it is opened.
func (s *settings) directory(dir, name string, o juicefs.Options) (v program.Volume, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return v, err
	}
	if name == "" {
		name = dir
	}
	l := juicefs.Local{Dir: dir, TrashDays: s.TrashDays, ACL: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	return program.Volume{Label: dir, Name: name, Open: func() (nfsserver.FS, error) {
		if err := mayHold(&l); err != nil {
			return nil, err
		}
		o := o
		if o.Meta, err = l.Make(); err != nil {
			return nil, err
		}
		return open(o)
	}}, nil
}

const (
	// lateAfter is the time after which a failed volume is retried. By then the server runs without
	// the volume, and must not end because of the failure.
	lateAfter = 10 * time.Second
	// againAfter is the time between two attempts.
	againAfter = 10 * time.Second
)

// openVolume is juicefs.Open; a test replaces it.
var openVolume = juicefs.Open

// open returns an FS, or an untyped nil. An invalid volume fails at once, and the error ends the
// server. Some clients, such as Redis', report an unreachable service only late; then the volume is
// retried until it opens.
func open(o juicefs.Options) (nfsserver.FS, error) {
	o.Logger = program.Logger()
	for began := time.Now(); ; time.Sleep(againAfter) {
		f, err := openVolume(o)
		if err == nil {
			return f, nil
		}
		if time.Since(began) < lateAfter {
			return nil, err
		}
		logrus.Warnf("%s: not served yet, it is tried again: %v", juicefs.Label(o.Meta), err)
	}
}

// mayHold refuses a directory that contains anything but a volume. It gives the root of a new
// volume the directory's owner.
func mayHold(l *juicefs.Local) error {
	list, err := os.ReadDir(l.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range list {
		if n := e.Name(); n != "meta" && n != "objects" && n != "lost+found" {
			return fmt.Errorf("directory %s has %s in it, and so is neither empty nor a volume: name another, or serve it as it is with nfsrdmad", l.Dir, n)
		}
	}
	if info, err := os.Stat(l.Dir); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			l.UID, l.GID, l.Mode = st.Uid, st.Gid, st.Mode&nfsserver.ModeAll
		}
	}
	return nil
}

// cutName splits VOLUME=/name; name is "" if it is absent. In a URL's query "=/" may belong to a
// parameter, as in ?sslrootcert=/etc/ca.pem.
func cutName(arg string) (volume, name string) {
	i := strings.LastIndex(arg, "=/")
	if i <= 0 {
		return arg, ""
	}
	volume, name = arg[:i], arg[i+1:]
	if q := strings.IndexByte(volume, '?'); q >= 0 && strings.Contains(volume, "://") {
		last := volume[max(q, strings.LastIndexByte(volume, '&'))+1:]
		if !strings.Contains(last, "=") {
			return arg, ""
		}
	}
	return volume, name
}
