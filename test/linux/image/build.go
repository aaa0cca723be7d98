// Builds an image, step by step.

package image

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

type builder struct {
	ctx    context.Context
	log    Log
	cache  string // all downloads, builds and images
	dir    string // the image directory
	series string

	release string // of the kernel, once known
	work    string // unpacked packages; removed at the end
}

func (b *builder) build() error {
	if err := hostTools(); err != nil {
		return err
	}
	b.log("building the guest image for Linux %s (once; kept in %s)", b.series, b.cache)
	kernel, debs, err := b.fetch()
	if err != nil {
		return err
	}
	b.release = kernel.release
	// kbuild breaks on paths with a space or a colon; cache directories have neither.
	b.work = filepath.Join(b.cache, "work-"+b.series)
	if err := os.RemoveAll(b.work); err != nil {
		return err
	}
	defer os.RemoveAll(b.work)
	sysroot, linux := filepath.Join(b.work, "sysroot"), filepath.Join(b.work, "linux")
	for _, p := range packages {
		if err := b.unpack(debs[p], sysroot); err != nil {
			return err
		}
	}
	for _, p := range kernel.unpacked() {
		if err := b.unpack(debs[p], linux); err != nil {
			return err
		}
	}
	b.log("building siw for %s", b.release)
	siw, err := b.buildSiw(linux, debs[kernel.source])
	if err != nil {
		return fmt.Errorf("building siw: %w", err)
	}
	if err := b.writeInitrd(sysroot, linux, siw); err != nil {
		return fmt.Errorf("building the initramfs: %w", err)
	}
	if err := copyFile(filepath.Join(linux, "boot", "vmlinuz-"+b.release), filepath.Join(b.dir, "vmlinuz")); err != nil {
		return err
	}
	return finish(b.dir, &Image{Series: b.series, Release: b.release})
}

// fetch locks the cache during the download, because all kernels share the packages.
func (b *builder) fetch() (k kernelPackages, debs map[string]string, err error) {
	unlock, err := lock(filepath.Join(b.cache, "lock-packages"))
	if err != nil {
		return k, nil, err
	}
	defer unlock()
	a := apt{ctx: b.ctx, log: b.log, debs: filepath.Join(b.cache, "debs"), state: filepath.Join(b.cache, "apt")}
	if k, err = a.kernel(b.series); err != nil {
		return k, nil, fmt.Errorf("%w: %v", ErrUnavailable, err)
	}
	if debs, err = a.fetch(append(k.packages(), packages...)); err != nil {
		return k, nil, fmt.Errorf("%w: %v", ErrUnavailable, err)
	}
	return k, debs, nil
}

// hostTools reports in one line which tools this machine lacks.
func hostTools() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("%w: the guests are Debian amd64, this is %s/%s", ErrUnavailable, runtime.GOOS, runtime.GOARCH)
	}
	release, _ := os.ReadFile("/etc/os-release")
	if !bytes.Contains(release, []byte("VERSION_CODENAME=bookworm")) {
		return fmt.Errorf("%w: the guests are made from the packages of Debian 12, and this is another system", ErrUnavailable)
	}
	var missing []string
	for _, tool := range []string{"apt-get", "apt-cache", "dpkg-deb", "tar", "xz", "make", "gcc-12", "strip"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	if missing != nil {
		return fmt.Errorf("%w: these programs are missing: %s", ErrUnavailable, strings.Join(missing, " "))
	}
	return nil
}

func (b *builder) unpack(deb, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	_, err := run(b.ctx, nil, "dpkg-deb", "-x", deb, dir)
	return err
}

// run returns a program's output; an error has the last lines of the output.
func run(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.Env = append(cmd.Env, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, tail(errs.String()+out.String(), 800))
	}
	return out.String(), nil
}

func tail(s string, n int) string {
	if s = strings.TrimSpace(s); len(s) > n {
		return "… " + s[len(s)-n:]
	}
	return s
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}
