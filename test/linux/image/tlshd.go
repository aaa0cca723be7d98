// Adds tlshd to an image. Debian 12 has no package of it, so it comes from a later release.

package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// laterRelease has tlshd, the program that does TLS handshakes for the kernel.
const laterRelease = "trixie"

// laterPackages are tlshd's package and all libraries that it loads.
var laterPackages = []string{
	"ktls-utils", "libatomic1", "libc6", "libffi8", "libglib2.0-0t64", "libgmp10", "libgnutls30t64", "libhogweed6t64", "libidn2-0", "libkeyutils1",
	"libnettle8t64", "libnl-3-200", "libnl-genl-3-200", "libp11-kit0", "libpcre2-8-0", "libtasn1-6", "libunistring5", "zlib1g",
}

// laterDir has tlshd in the guest, with a C library and a loader other than the guest's.
const laterDir = "opt/tlshd"

// laterStart starts tlshd with its own loader.
const laterStart = "#!/bin/sh\nexec /" + laterDir + "/ld-linux-x86-64.so.2 --library-path /" + laterDir + " /" + laterDir + "/tlshd \"$@\"\n"

// WithTLSHD returns the image with tlshd as a command: a second archive after the first, 13 MB
// longer, built once. Kernels before 6.5 have no use for it.
func (img *Image) WithTLSHD(ctx context.Context, log Log) (*Image, error) {
	if log == nil {
		log = func(string, ...any) {}
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	both := *img
	sum := sha256.Sum256(fmt.Appendf(nil, "layout 1 %s %q %s", laterRelease, laterPackages, laterStart))
	both.Initrd = filepath.Join(filepath.Dir(img.Initrd), "initramfs-tlshd-"+hex.EncodeToString(sum[:])[:12]+".cpio")
	unlock, err := lock(filepath.Join(cache, "lock-tlshd"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	if _, err := os.Stat(both.Initrd); err == nil {
		return &both, nil
	}
	b := &builder{ctx: ctx, log: log, cache: cache, work: filepath.Join(cache, "work-tlshd")}
	if err := b.addTLSHD(img.Initrd, both.Initrd); err != nil {
		return nil, fmt.Errorf("adding tlshd to the guest image: %w", err)
	}
	return &both, nil
}

// addTLSHD copies an archive and appends another to it.
func (b *builder) addTLSHD(from, to string) error {
	a := apt{ctx: b.ctx, log: b.log, debs: filepath.Join(b.cache, "debs-"+laterRelease), state: filepath.Join(b.cache, "apt-"+laterRelease), release: laterRelease}
	if err := a.makeState(); err != nil {
		return err
	}
	debs, err := a.fetch(laterPackages)
	if err != nil {
		return fmt.Errorf("%w: %v", ErrUnavailable, err)
	}
	if err := os.RemoveAll(b.work); err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	for _, p := range laterPackages {
		if err := b.unpack(debs[p], b.work); err != nil {
			return err
		}
	}
	if err := copyFile(from, to+".tmp"); err != nil {
		return err
	}
	f, err := os.OpenFile(to+".tmp", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	in := &initrd{archive: newArchive(f), sysroot: b.work, libs: laterDir}
	if err := in.program("usr/sbin/tlshd", path.Join(laterDir, "tlshd")); err != nil {
		return err
	}
	in.file("usr/sbin/tlshd", 0o755, []byte(laterStart))
	if err := in.close(); err != nil {
		return err
	}
	return os.Rename(to+".tmp", to)
}
