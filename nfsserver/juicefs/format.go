// New volumes, with metadata and objects in services.

package juicefs

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/uuid"
	"github.com/juicedata/juicefs/pkg/compress"
	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/object"
	"github.com/juicedata/juicefs/pkg/utils"
)

// A New describes a volume to make.
type New struct {
	// Meta is the URL of the metadata service. Name is the name of the volume, and the prefix of
	// its objects.
	Meta, Name string
	// Storage is JuiceFS's word for the object storage, such as s3 or file. Bucket is the URL or
	// directory in it.
	Storage, Bucket string
	// AccessKey, SecretKey and SessionToken are for the object storage. They are kept in the
	// metadata, the last two encrypted.
	AccessKey, SecretKey, SessionToken string
	// Compression is lz4, zstd or "".
	Compression string
	// Capacity and Inodes are the most bytes and objects; 0: no limit.
	Capacity, Inodes uint64
	// TrashDays is the number of days removed files stay in the trash; 0: no trash.
	TrashDays int
	// Replace is the name of an existing volume to be erased; "": the metadata service must have
	// none.
	Replace string
}

// volumeName matches the names that JuiceFS accepts.
var volumeName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$`)

// check finds errors in the settings, without any service.
func (n *New) check() error {
	switch {
	case !volumeName.MatchString(n.Name):
		return fmt.Errorf("volume name %q: want 3 to 63 lower-case letters, digits and dashes, with no dash at an end", n.Name)
	case n.Storage == "" || n.Bucket == "":
		return errors.New("an object storage and a bucket in it are needed")
	case strings.EqualFold(n.Storage, "mem"):
		return errors.New("storage mem keeps nothing: choose another")
	case compress.NewCompressor(n.Compression) == nil:
		return fmt.Errorf("compression %q is not known: want lz4, zstd or none", n.Compression)
	case n.TrashDays < 0:
		return fmt.Errorf("%d days of trash: want 0 or more", n.TrashDays)
	}
	return nil
}

// Make makes the volume, after a test that stores and reads back an object. It leaves a volume in
// the metadata service, and objects under the name, unchanged, unless Replace names that volume.
func (n New) Make(ctx context.Context) (err error) {
	if err := n.check(); err != nil {
		return fmt.Errorf("juicefs: %w", err)
	}
	conf, err := configure(&Options{Meta: n.Meta})
	if err != nil {
		return err
	}
	if strings.EqualFold(n.Storage, "file") {
		if n.Bucket, err = filepath.Abs(n.Bucket); err != nil {
			return fmt.Errorf("juicefs: %w", err)
		}
		n.Bucket += "/" // JuiceFS treats text after the last slash as a prefix
	}
	m, err := connect(n.Meta, conf)
	if err != nil {
		return err
	}
	defer func() {
		if e := m.Shutdown(); err == nil && e != nil {
			err = fmt.Errorf("juicefs: %w", e)
		}
	}()
	there, err := n.mayMake(m)
	if err != nil {
		return fmt.Errorf("juicefs: %w", err)
	}
	format := n.format()
	blob, err := storage(*format)
	if err == nil {
		defer object.Shutdown(blob)
		err = tryStorage(ctx, blob)
	}
	if err != nil {
		return fmt.Errorf("juicefs: object storage: %w", err)
	}
	if err := format.Encrypt(); err != nil {
		return fmt.Errorf("juicefs: %w", err)
	}
	if there {
		if err := m.Reset(); err != nil {
			return fmt.Errorf("juicefs: removing volume %s: %w", n.Replace, err)
		}
	}
	if err := m.Init(format, false); err != nil {
		return fmt.Errorf("juicefs: %w", err)
	}
	return nil
}

// mayMake reports whether the volume named by Replace exists. Another existing volume is an error.
func (n *New) mayMake(m meta.Meta) (there bool, err error) {
	old, err := m.Load(false)
	switch {
	case err == nil && old.Name == n.Replace:
		return true, nil
	case err == nil:
		return false, fmt.Errorf("%s has a volume already, %s: it is left as it is", Label(n.Meta), old.Name)
	case !strings.HasPrefix(err.Error(), "database is not formatted"): // no error value exists
		return false, err
	case n.Replace != "":
		return false, fmt.Errorf("%s has no volume %s to be replaced", Label(n.Meta), n.Replace)
	}
	return false, nil
}

// format returns the settings in JuiceFS's form.
func (n *New) format() *meta.Format {
	return &meta.Format{
		Name: n.Name, UUID: uuid.NewString(), Storage: n.Storage, Bucket: n.Bucket, Tiers: object.NewTiers(""),
		AccessKey: n.AccessKey, SecretKey: n.SecretKey, SessionToken: n.SessionToken,
		BlockSize: blockKiB, Compression: n.Compression, Capacity: n.Capacity, Inodes: n.Inodes, TrashDays: n.TrashDays,
		EnableACL: true, DirStats: true, MetaVersion: meta.MaxVersion, MinClientVersion: "1.2.0-A",
	}
}

// tryStorage stores and reads back an object. It makes the bucket if that is missing; the prefix
// must have no objects.
func tryStorage(ctx context.Context, blob object.ObjectStorage) error {
	const key = "testing/nfsrdmad-juicefs"
	data := make([]byte, 100)
	rand.Read(data)
	if err := blob.Put(ctx, key, bytes.NewReader(data)); err != nil {
		if e := blob.Create(ctx); e != nil {
			return fmt.Errorf("an object could not be stored (%w), and the bucket could not be made: %w", err, e)
		}
		if err := blob.Put(ctx, key, bytes.NewReader(data)); err != nil {
			return err
		}
	}
	r, err := blob.Get(ctx, key, 0, -1)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close(), blob.Delete(ctx, key)); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return errors.New("an object had another content when it was read")
	}
	if key, err := oneObject(ctx, blob); err != nil {
		return fmt.Errorf("its objects could not be listed: %w", err)
	} else if key != "" {
		return fmt.Errorf("it has objects of this name, such as %s: choose another name or bucket", key)
	}
	return nil
}

// oneObject returns the key of an object with content, or "".
func oneObject(ctx context.Context, blob object.ObjectStorage) (string, error) {
	key, err := oneObjectBelow(ctx, blob, "")
	if !errors.Is(err, utils.ErrNotSUP) {
		return key, err
	}
	// A storage without directories.
	objects, err := object.ListAll(ctx, blob, "", "", false, false)
	if err != nil {
		return "", err
	}
	for o := range objects { // to the end, because a goroutine is blocked sending the rest
		switch {
		case o == nil:
			err = errors.New("the listing broke off")
		case !o.IsDir() && o.Size() > 0 && key == "":
			key = o.Key()
		}
	}
	return key, err
}

// oneObjectBelow is oneObject for the keys that begin with prefix, which is empty or ends with a
// slash. It lists one directory at a time, and stops at the first object: a bucket may have
// millions.
func oneObjectBelow(ctx context.Context, blob object.ObjectStorage, prefix string) (string, error) {
	const page = 1000
	last, token := "", ""
	for more := true; more; {
		objects, rest, next, err := blob.List(ctx, prefix, last, token, "/", page, false)
		if err != nil {
			return "", err
		}
		more, token = rest && len(objects) > 0, next
		for _, o := range objects {
			last = o.Key()
			switch {
			case last == prefix: // the directory itself
			case o.IsDir():
				if key, err := oneObjectBelow(ctx, blob, last); key != "" || err != nil {
					return key, err
				}
			case o.Size() > 0:
				return last, nil
			}
		}
	}
	return "", nil
}
