// Opening a volume: metadata service, object storage, and the buffers between them and us.

package juicefs

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/juicedata/juicefs/pkg/chunk"
	"github.com/juicedata/juicefs/pkg/compress"
	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/object"
	"github.com/juicedata/juicefs/pkg/vfs"
)

// Options select a volume and configure the FS. The zero values except Meta's suit most uses.
type Options struct {
	// Meta is the URL of the volume's metadata service, as for `juicefs mount`, or the result of
	// Local.Make.
	Meta string
	// Dir is the path of the directory in the volume that becomes the FS's root; "": the volume's
	// root.
	Dir string
	// CacheDir stores blocks of the object storage on this machine, at most CacheSize bytes; 0: no
	// cache besides the buffers.
	CacheDir  string
	CacheSize uint64
	// BufferSize bounds the bytes in transit to and from the object storage; 0: 300 MiB.
	BufferSize uint64
	// UploadLimit and DownloadLimit are in megabits per second; 0: the volume's limits.
	UploadLimit, DownloadLimit int64
	// MaxUploads bounds concurrent uploads of blocks; 0: 20.
	MaxUploads int
	// Heartbeat is the interval at which the server renews its session and reads changes of
	// settings and quotas. After five missed ones its locks are free. 0: 12 s. It does not apply to
	// volumes in directories, which have no other clients.
	Heartbeat time.Duration
	// Retries bounds JuiceFS's retries of a failed request, with growing pauses; 0: 10, which take
	// some minutes.
	Retries int
	// StateDir is a directory for this server alone that outlives its process. A server killed and
	// restarted on the same machine within three heartbeats holds its clients' locks while they
	// reclaim them, until EndGrace (session.go). A server restarted later releases them. "": the
	// locks are free five heartbeats after the server's end, and cannot be reclaimed before.
	StateDir string
	// SharedReplies: each REMOVE, RMDIR, RENAME and LINK is recorded in the metadata first, so that
	// another server recognizes it when the client repeats it there. That costs one more
	// transaction each. New objects are recognized without a record. It does not apply to volumes
	// in directories.
	SharedReplies bool
	// ReadOnly: nothing in the volume is changed, including its list of clients. So the server
	// holds no locks there, either.
	ReadOnly bool
	// Logger receives lines for an operator: a missing volume, a rejected storage, and the reason
	// to end the process. nil: slog.Default(). JuiceFS itself always logs warnings and errors to
	// standard error.
	Logger *slog.Logger
}

const (
	defaultBuffer = 300 << 20
	retries       = 10
	maxUploads    = 20
	// mbit is a megabit in bytes.
	mbit = 1e6 / 8
)

// soleHeartbeat is the heartbeat of a client without other clients: JuiceFS's longest interval.
const soleHeartbeat = 10 * time.Minute

// JuiceFS updates a directory's times after a change of names only if that is later than its
// modification time plus SkipDirMtime. That time may be ahead of our clock, if a server with a
// faster clock has just changed the directory. Clients of that server would then not notice our
// change. So SkipDirMtime is negative. For a directory with a time further ahead than clockAhead,
// FS.changed sets it: some are set twice, and none is missed.
const (
	clockAhead   = time.Hour
	skipDirMtime = -2 * clockAhead
)

// Open opens a volume, and registers as one of its clients.
func Open(o Options) (*FS, error) {
	for {
		f, err := tryOpen(o)
		if !errors.Is(err, errLate) {
			return f, err
		}
	}
}

// configure checks o, and returns the configuration of JuiceFS's metadata client.
func configure(o *Options) (*meta.Config, error) {
	driver, _, ok := strings.Cut(o.Meta, "://")
	if !ok {
		return nil, fmt.Errorf("juicefs: metadata URL %q: want one such as redis://HOST/1", o.Meta)
	}
	if driver == "memkv" {
		return nil, errors.New("juicefs: memkv keeps nothing, so no write could be acknowledged: choose another metadata service")
	}
	conf := meta.DefaultConf()
	if o.Retries == 0 {
		o.Retries = retries
	}
	conf.Retries = o.Retries
	conf.MountPoint = "nfs"
	conf.ReadOnly = o.ReadOnly
	conf.SkipDirMtime = skipDirMtime
	if o.Heartbeat > 0 {
		conf.Heartbeat = o.Heartbeat
	}
	if isBadger(o.Meta) {
		conf.Heartbeat = soleHeartbeat
	}
	if o.ReadOnly || isBadger(o.Meta) {
		o.StateDir = "" // no session
	}
	return conf, nil
}

// tryOpen is Open. errLate: the previous process's session has ended now, and the next attempt
// begins another.
func tryOpen(o Options) (*FS, error) {
	conf, err := configure(&o)
	if err != nil {
		return nil, err
	}
	m, format, err := load(o.Meta, conf)
	if err != nil {
		return nil, err
	}
	file, err := openSession(o.StateDir, format.UUID)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("juicefs: session: %w", err), m.Shutdown())
	}
	earlier, until := file.earlier(m)
	goOn := earlier != 0 && until.Sub(now()) >= conf.Heartbeat
	switch {
	case goOn: // a client gets its session's number when it is made
		err = m.Shutdown()
		conf.Sid = earlier
		if err == nil {
			m, format, err = load(o.Meta, conf)
		}
		if err != nil {
			file.close()
			return nil, err
		}
	case earlier != 0:
		if err := endSession(o.Meta, conf, earlier); err != nil {
			file.close()
			return nil, errors.Join(fmt.Errorf("juicefs: session %d: %w", earlier, err), m.Shutdown())
		}
	}
	f, err := open(o, m, conf, format)
	if err != nil {
		file.close()
		return nil, errors.Join(err, m.Shutdown())
	}
	f.session = file
	if err := f.handOn(conf, goOn, until); err != nil {
		if e := f.Close(); e != nil {
			return nil, fmt.Errorf("%v: %w", err, e) // not retried
		}
		return nil, err
	}
	return f, nil
}

// load makes a metadata client, and reads its volume's settings.
func load(url string, conf *meta.Config) (meta.Meta, *meta.Format, error) {
	m, err := connect(url, conf)
	if err != nil {
		return nil, nil, err
	}
	format, err := loadFormat(m)
	if err != nil {
		return nil, nil, errors.Join(err, m.Shutdown())
	}
	return m, format, nil
}

// open makes the FS of a metadata client.
func open(o Options, m meta.Meta, conf *meta.Config, format *meta.Format) (_ *FS, err error) {
	f := &FS{log: o.Logger, m: m, readOnly: o.ReadOnly, sole: isBadger(o.Meta), now: time.Now}
	f.settings = func() (*meta.Format, error) { return settingsOf(o.Meta, conf) }
	f.calls.slot.Store(-1)
	if f.work, err = backgroundOf(m); err != nil {
		return nil, err
	}
	if f.blob, err = storage(*format); err != nil {
		return nil, fmt.Errorf("juicefs: object storage: %w", err)
	}
	if f.local, err = openLocal(o.Meta, format); err != nil {
		object.Shutdown(f.blob)
		return nil, err
	}
	defer func() {
		if err != nil {
			f.local.close()
			object.Shutdown(f.blob)
		}
	}()
	if f.root, err = resolve(m, o.Dir); err != nil {
		return nil, fmt.Errorf("juicefs: directory %s of the volume: %w", o.Dir, err)
	}
	if f.key, err = handleKey(m, o.ReadOnly); err != nil {
		return nil, fmt.Errorf("juicefs: key of file handles: %w", err)
	}
	id := sha256.Sum256([]byte(format.UUID))
	f.uuid, f.volume, f.hashKey = format.UUID, binary.BigEndian.Uint64(id[:]), [16]byte(id[16:])
	return f, f.begin(&o, conf, format)
}

// loadFormat reads a volume's settings, and refuses those that cannot be served.
func loadFormat(m meta.Meta) (*meta.Format, error) {
	format, err := m.Load(true)
	if err != nil {
		return nil, fmt.Errorf("juicefs: %w", err)
	}
	if compress.NewCompressor(format.Compression) == nil {
		return nil, fmt.Errorf("juicefs: the volume is compressed by %q, which is not known here", format.Compression)
	}
	if strings.EqualFold(format.Storage, "mem") {
		return nil, errors.New("juicefs: the volume's objects are in the memory of each client, so no write could be acknowledged: choose another object storage")
	}
	return format, nil
}

// begin starts the block store and the session.
func (f *FS) begin(o *Options, conf *meta.Config, format *meta.Format) error {
	f.files.objects = &watchedStorage{ObjectStorage: f.blob, outage: outage{log: o.Logger}}
	cc := blocks(o, format)
	store := chunk.NewCachedStore(f.files.objects, *cc, nil)
	f.m.OnMsg(meta.DeleteSlice, func(args ...any) error {
		return store.Remove(args[0].(uint64), int(args[1].(uint32)))
	})
	f.m.OnMsg(meta.CompactChunk, func(args ...any) error {
		return vfs.Compact(*cc, store, args[0].([]meta.Slice), args[1].(uint64), args[2].(uint8))
	})
	// A volume in Badger belongs to this process alone. No other session can end while ours runs,
	// so it needs no registered session, and no locks of a killed process's session remain.
	if err := f.m.NewSession(!f.sole); err != nil {
		return fmt.Errorf("juicefs: %w", err)
	}
	f.sid = conf.Sid
	f.m.OnReload(func(n *meta.Format) {
		store.UpdateLimit(limit(o.UploadLimit, n.UploadLimit), limit(o.DownloadLimit, n.DownloadLimit))
	})
	f.files.start(f.m, store, &vfs.Config{Meta: conf, Format: *format, Chunk: cc})
	opened.add(f)
	if o.SharedReplies && !o.ReadOnly && !f.sole {
		f.calls.start(f.m)
	}
	return nil
}

// resolve looks up a directory in the volume.
func resolve(m meta.Meta, path string) (meta.Ino, error) {
	ino := rootIno
	for name := range strings.SplitSeq(path, "/") {
		if name == "" {
			continue
		}
		var a meta.Attr
		if no := m.Lookup(system, ino, name, &ino, &a, false); no != 0 {
			return 0, no
		}
		if a.Typ != meta.TypeDirectory || ino.IsTrash() {
			return 0, syscall.ENOTDIR
		}
	}
	return ino, nil
}

func isBadger(url string) bool { return strings.HasPrefix(url, "badger://") }

// limit returns a limit in megabits per second: ours if set, or the volume's.
func limit(own, volume int64) int64 {
	if own > 0 {
		return own
	}
	return volume
}

// objectTimeout is how long JuiceFS waits for the object storage before it retries. Tests use
// another value: after the timeout JuiceFS writes an error without a lock that the request's
// goroutine also writes, which a slow test would report as a race.
var objectTimeout = time.Minute

// blocks configures the block store. Data is never acknowledged from a local cache (writeback):
// only the object storage makes it stable.
func blocks(o *Options, format *meta.Format) *chunk.Config {
	c := &chunk.Config{
		BlockSize: format.BlockSize << 10, Compress: format.Compression, HashPrefix: format.HashPrefix,
		GetTimeout: objectTimeout, PutTimeout: objectTimeout, MaxUpload: max(o.MaxUploads, 0), MaxDownload: 200, MaxRetries: o.Retries,
		BufferSize: o.BufferSize, UploadLimit: mbit * limit(o.UploadLimit, format.UploadLimit), DownloadLimit: mbit * limit(o.DownloadLimit, format.DownloadLimit),
		CacheDir: o.CacheDir, CacheSize: o.CacheSize, CacheMode: 0o600, CacheFullBlock: true, CacheChecksum: chunk.CsExtend,
		CacheScanInterval: time.Hour, FreeSpace: 0.1, OSCache: true, AutoCreate: true, Prefetch: 1,
	}
	if c.MaxUpload == 0 {
		c.MaxUpload = maxUploads
	}
	if c.BufferSize == 0 {
		c.BufferSize = defaultBuffer
	}
	if c.CacheDir == "" || c.CacheSize == 0 {
		c.CacheDir, c.CacheSize, c.Prefetch = "memory", 0, 0
	}
	c.Readahead = 8 * c.BlockSize
	c.SelfCheck(format.UUID)
	return c
}

// storage opens the volume's object storage.
func storage(format meta.Format) (object.ObjectStorage, error) {
	if err := format.Decrypt(); err != nil {
		return nil, err
	}
	var blob object.ObjectStorage
	var err error
	name := strings.ToLower(format.Storage)
	if format.Shards > 1 {
		blob, err = object.NewSharded(name, format.Bucket, format.AccessKey, format.SecretKey, format.SessionToken, format.Shards)
	} else {
		blob, err = object.CreateStorage(name, format.Bucket, format.AccessKey, format.SecretKey, format.SessionToken)
	}
	if err != nil {
		return nil, err
	}
	blob = object.WithPrefix(blob, format.Name+"/")
	if tiered, ok := blob.(object.SupportTier); ok {
		_ = tiered.InitTiers(format.Tiers) // a storage without classes stores all objects alike
	}
	if format.EncryptKey == "" {
		return blob, nil
	}
	key, err := object.ParsePrivateKeyFromPem([]byte(format.EncryptKey), []byte(os.Getenv("JFS_RSA_PASSPHRASE")))
	if err != nil {
		return nil, fmt.Errorf("%w (its passphrase is taken from JFS_RSA_PASSPHRASE)", err)
	}
	enc, err := object.NewDataEncryptor(object.NewKeyEncryptor(key), format.EncryptAlgo)
	if err != nil {
		return nil, err
	}
	return object.NewEncrypted(blob, enc), nil
}
