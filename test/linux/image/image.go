// Finds an image in the cache, or builds it.

package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// Image is a kernel with its initramfs.
type Image struct {
	Series  string // "6.1"
	Release string // as in uname -r: "6.1.0-56-amd64"
	Kernel  string // path of vmlinuz
	Initrd  string // path of the initramfs
}

// ErrUnavailable means that this machine cannot build images: it is not Debian 12 on amd64, a tool
// is missing, or packages cannot be downloaded.
var ErrUnavailable = errors.New("no Linux guest here")

// Log receives one line per slow step; nil discards them.
type Log func(format string, args ...any)

// Get returns the image of a kernel series, from the cache if possible. Building takes one to three
// minutes, nearly all of it download and unpacking. Only one process builds an image at a time;
// others wait. Images of two kernels can be built concurrently except for their downloads.
func Get(ctx context.Context, series string, log Log) (*Image, error) {
	if !slices.Contains(Series, series) {
		return nil, fmt.Errorf("kernel series %q is none of %v", series, Series)
	}
	if log == nil {
		log = func(string, ...any) {}
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(cache, "image-"+recipeHash(), series)
	if img, err := load(dir); err == nil {
		return img, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(cache, "lock-"+series))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if img, err := load(dir); err == nil {
		return img, nil
	}
	b := &builder{ctx: ctx, log: log, cache: cache, dir: dir, series: series}
	if err := b.build(); err != nil {
		return nil, err
	}
	return load(dir)
}

// load reads the file written by finish. Without the file an image is incomplete.
func load(dir string) (*Image, error) {
	text, err := os.ReadFile(filepath.Join(dir, "image.json"))
	if err != nil {
		return nil, err
	}
	img := new(Image)
	if err := json.Unmarshal(text, img); err != nil {
		return nil, err
	}
	img.Kernel = filepath.Join(dir, "vmlinuz")
	img.Initrd = filepath.Join(dir, "initramfs.cpio")
	for _, path := range []string{img.Kernel, img.Initrd} {
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
	}
	return img, nil
}

func finish(dir string, img *Image) error {
	text, err := json.Marshal(img)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, "image.json.tmp")
	if err := os.WriteFile(tmp, text, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, "image.json"))
}

func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
