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

// Options say which volume to open, and how. The zero values but Meta are right for most.
type Options struct {
	// Meta is the URL of the volume's metadata service, as for `juicefs mount`, or what Local.Make returned.
	Meta string
	// Dir is the path of the volume's directory that is the root of the FS; "": all of the volume.
	Dir string
	// CacheDir is where blocks of the object storage are kept on this machine, CacheSize their most bytes; 0: none are
	// kept beside the buffers.
	CacheDir  string
	CacheSize uint64
	// BufferSize is the most bytes of data on its way to and from the object storage; 0: 300 MiB.
	BufferSize uint64
	// UploadLimit and DownloadLimit are megabits per second; 0: those of the volume.
	UploadLimit, DownloadLimit int64
	// MaxUploads is how many blocks are uploaded at once; 0: 20.
	MaxUploads int
	// Heartbeat is how often the server tells the volume's other clients that it lives, and looks for what they have changed of settings
	// and quotas; its locks are theirs after five. 0: 12 s. It is not for volumes in directories, which have no other clients.
	Heartbeat time.Duration
	// Retries is how often JuiceFS tries again what a service has not done, each time after a longer wait; 0: 10, which takes some minutes.
	Retries int
	// StateDir is a directory of this server alone that outlives its process: a server that is
	// killed and started again on the same machine within three heartbeats holds the locks of its
	// clients while they reclaim them, until EndGrace (session.go), and one that is started later
	// releases them. "": they are free five heartbeats after its end, and nobody can reclaim them
	// before.
	StateDir string
	// SharedReplies: before a REMOVE, RMDIR, RENAME or LINK it is recorded in the metadata, so that another server recognizes it when
	// the client repeats it there. That is a transaction more for each. New objects are recognized without. It is not for volumes in directories.
	SharedReplies bool
	// ReadOnly: nothing is changed in the volume, not even the list of its clients. So it holds no locks there, either.
	ReadOnly bool
	// Logger takes lines for an operator: a volume that is gone, a storage that is refused, and why the process ends. nil: slog.Default().
	// JuiceFS itself logs warnings and errors to standard error, whatever this is.
	Logger *slog.Logger
}

const (
	defaultBuffer = 300 << 20
	retries       = 10
	maxUploads    = 20
	// mbit is a megabit in bytes.
	mbit = 1e6 / 8
)

// soleHeartbeat is how often a client that is the only one looks for what others have changed: JuiceFS's longest time.
const soleHeartbeat = 10 * time.Minute

// JuiceFS changes the times of a directory with its names if that is later than its modification
// time by SkipDirMtime. That time may be ahead of our clock, where another server whose clock is
// has just changed the directory; clients of that server would not learn of our change. So it is
// less than nothing, and who gives a directory a time in the far future has it changed by us
// (FS.changed), from clockAhead on: some of them are changed twice, and none never.
const (
	clockAhead   = time.Hour
	skipDirMtime = -2 * clockAhead
)

// Open opens a volume, and has it known as one more of its clients.
func Open(o Options) (*FS, error) {
	for {
		f, err := tryOpen(o)
		if !errors.Is(err, errLate) {
			return f, err
		}
	}
}

// configure checks o, and says what JuiceFS's metadata client is to do.
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
		o.StateDir = "" // there is no session
	}
	return conf, nil
}

// tryOpen is Open. errLate: the session of the process before has ended now, and the next one is another.
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
	case goOn: // a client has the number of its session from its beginning
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
			return nil, fmt.Errorf("%v: %w", err, e) // and nothing is tried again
		}
		return nil, err
	}
	return f, nil
}

// load makes a metadata client, and asks for the settings of its volume.
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

// loadFormat asks for the settings of a volume, and refuses those that cannot be served.
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
	f.files.room = &room{ObjectStorage: f.blob, silence: silence{log: o.Logger}}
	cc := blocks(o, format)
	store := chunk.NewCachedStore(f.files.room, *cc, nil)
	f.m.OnMsg(meta.DeleteSlice, func(args ...any) error {
		return store.Remove(args[0].(uint64), int(args[1].(uint32)))
	})
	f.m.OnMsg(meta.CompactChunk, func(args ...any) error {
		return vfs.Compact(*cc, store, args[0].([]meta.Slice), args[1].(uint64), args[2].(uint8))
	})
	// A volume in Badger is this process's alone: nobody else's session ends while ours goes on, so there is no need
	// to be known by one, and no lock of a session that a killed process left behind is in our way.
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

// resolve finds a directory of the volume.
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

// limit is a limit in megabits per second: ours, or that of the volume.
func limit(own, volume int64) int64 {
	if own > 0 {
		return own
	}
	return volume
}

// objectTimeout is how long JuiceFS waits for an answer of the object storage before it tries
// again. Tests have another: when that has passed it writes an error without a lock which the
// goroutine of the request writes, too, and a test that is slow would find a race.
var objectTimeout = time.Minute

// blocks configures the block store. Nothing is acknowledged from a cache of this machine (writeback): only the object
// storage makes data stable.
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

// storage opens the object storage that a volume names.
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
		_ = tiered.InitTiers(format.Tiers) // where there are no classes of storage, all objects are of one
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
