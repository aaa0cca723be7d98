// Fetching Debian packages without installing them.

package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// apt fetches into debs. When the machine's package lists are missing or stale and
// we must not refresh them, a private copy under state is used instead.
type apt struct {
	ctx   context.Context
	log   Log
	debs  string
	state string

	private   bool
	refreshed bool
}

func (a *apt) opts(args ...string) []string {
	if !a.private {
		return args
	}
	return append([]string{"-o", "Dir::State::lists=" + filepath.Join(a.state, "lists"), "-o", "Dir::Cache=" + filepath.Join(a.state, "cache")}, args...)
}

// refresh runs apt-get update, once.
func (a *apt) refresh() error {
	if a.refreshed {
		return fmt.Errorf("the package lists were just refreshed")
	}
	a.refreshed = true
	if os.Geteuid() != 0 {
		a.private = true
		for _, dir := range []string{"lists/partial", "cache/archives/partial"} {
			if err := os.MkdirAll(filepath.Join(a.state, dir), 0o755); err != nil {
				return err
			}
		}
	}
	a.log("refreshing the package lists")
	_, err := run(a.ctx, nil, "apt-get", a.opts("update", "-qq")...)
	return err
}

// kernelPackages names the packages of one kernel.
type kernelPackages struct {
	release                                string
	image, headers, common, kbuild, source string
}

func (k kernelPackages) packages() []string {
	return append(k.unpacked(), k.source)
}

func (k kernelPackages) unpacked() []string {
	return []string{k.image, k.headers, k.common, k.kbuild}
}

// kernel finds the newest kernel of a series whose source package has the same version.
func (a *apt) kernel(series string) (kernelPackages, error) {
	k, err := a.findKernel(series)
	if err != nil {
		if rerr := a.refresh(); rerr != nil {
			return k, fmt.Errorf("%v; apt-get update: %v", err, rerr)
		}
		k, err = a.findKernel(series)
	}
	return k, err
}

var versionLine = regexp.MustCompile(`(?m)^Version: (.*)$`)

func (a *apt) version(pkg string) (string, error) {
	out, err := run(a.ctx, nil, "apt-cache", a.opts("show", "--no-all-versions", pkg)...)
	if err != nil {
		return "", err
	}
	m := versionLine.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("apt knows no version of %s", pkg)
	}
	return m[1], nil
}

func (a *apt) findKernel(series string) (k kernelPackages, err error) {
	k.source = "linux-source-" + series
	version, err := a.version(k.source)
	if err != nil {
		return k, err
	}
	names, err := run(a.ctx, nil, "apt-cache", a.opts("pkgnames", "linux-image-"+series+".")...)
	if err != nil {
		return k, err
	}
	release := regexp.MustCompile(`^linux-image-(` + regexp.QuoteMeta(series) + `\.\d+(-\d+|\+deb12))-amd64$`)
	for name := range strings.Lines(names) {
		m := release.FindStringSubmatch(strings.TrimSpace(name))
		if m == nil {
			continue
		}
		if v, err := a.version(m[0]); err != nil || v != version {
			continue
		}
		k.release, k.image = m[1]+"-amd64", m[0]
		k.headers, k.common = "linux-headers-"+k.release, "linux-headers-"+m[1]+"-common"
		// Backported kernels come with a kbuild package of their own.
		if k.kbuild = "linux-kbuild-" + series; strings.HasPrefix(m[2], "+") {
			k.kbuild = "linux-kbuild-" + m[1]
		}
		return k, nil
	}
	return k, fmt.Errorf("no kernel package of version %s, which is that of %s", version, k.source)
}

// 'URI' file size hash
var uriLine = regexp.MustCompile(`(?m)^'[^']*' (([^_ ]+)_\S+) (\d+) `)

// fetch returns the file of each package, downloading those that are not in the cache.
func (a *apt) fetch(pkgs []string) (map[string]string, error) {
	files, err := a.tryFetch(pkgs)
	if err != nil && a.refresh() == nil {
		files, err = a.tryFetch(pkgs)
	}
	return files, err
}

func (a *apt) tryFetch(pkgs []string) (map[string]string, error) {
	if err := os.MkdirAll(a.debs, 0o755); err != nil {
		return nil, err
	}
	uris, err := run(a.ctx, nil, "apt-get", a.opts(append([]string{"download", "--print-uris"}, pkgs...)...)...)
	if err != nil {
		return nil, err
	}
	files, sizes := map[string]string{}, map[string]int64{}
	for _, m := range uriLine.FindAllStringSubmatch(uris, -1) {
		files[m[2]] = filepath.Join(a.debs, m[1])
		sizes[m[2]], _ = strconv.ParseInt(m[3], 10, 64)
	}
	var want []string
	for _, p := range pkgs {
		if files[p] == "" {
			return nil, fmt.Errorf("apt names no file for %s", p)
		}
		if !hasSize(files[p], sizes[p]) {
			want = append(want, p)
		}
	}
	if want == nil {
		return files, nil
	}
	a.log("downloading %d packages", len(want))
	if err := a.download(want); err != nil {
		return nil, err
	}
	for _, p := range want {
		if !hasSize(files[p], sizes[p]) {
			return nil, fmt.Errorf("%s was not downloaded", p)
		}
	}
	return files, nil
}

// download lets apt-get work in the cache directory; it verifies the hashes.
func (a *apt) download(pkgs []string) error {
	args := a.opts(append([]string{"-qq", "download"}, pkgs...)...)
	_, err := run(a.ctx, nil, "env", append([]string{"-C", a.debs, "apt-get"}, args...)...)
	return err
}

func hasSize(path string, size int64) bool {
	st, err := os.Stat(path)
	return err == nil && st.Size() == size
}
