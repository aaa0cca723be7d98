// Fetching Debian packages without installing them.

package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	release, version                       string
	image, headers, common, kbuild, source string
}

func (k kernelPackages) packages() []string {
	return append(k.unpacked(), k.source+"="+k.version)
}

func (k kernelPackages) unpacked() []string {
	return []string{k.image, k.headers, k.common, k.kbuild}
}

// kernel finds the newest kernel of a series of whose version there is a source package, too: the
// archive has a source sometimes days before the signed kernel of it.
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

// versions returns all versions of a package, the newest first.
func (a *apt) versions(pkg string) (all []string, err error) {
	out, err := run(a.ctx, nil, "apt-cache", a.opts("show", pkg)...)
	for _, m := range versionLine.FindAllStringSubmatch(out, -1) {
		all = append(all, m[1])
	}
	return all, err
}

func (a *apt) findKernel(series string) (k kernelPackages, err error) {
	k.source = "linux-source-" + series
	versions, err := a.versions(k.source)
	if err != nil {
		return k, err
	}
	names, err := run(a.ctx, nil, "apt-cache", a.opts("pkgnames", "linux-image-"+series+".")...)
	if err != nil {
		return k, err
	}
	newest := len(versions) // index of the version that has been found
	release := regexp.MustCompile(`^linux-image-(` + regexp.QuoteMeta(series) + `\.\d+(-\d+|\+deb12))-amd64$`)
	for name := range strings.Lines(names) {
		m := release.FindStringSubmatch(strings.TrimSpace(name))
		if m == nil {
			continue
		}
		v, err := a.version(m[0])
		if err != nil {
			continue
		}
		if i := slices.Index(versions, v); i >= 0 && i < newest {
			newest = i
		} else {
			continue
		}
		k.version = v
		k.release, k.image = m[1]+"-amd64", m[0]
		k.headers, k.common = "linux-headers-"+k.release, "linux-headers-"+m[1]+"-common"
		// Backported kernels come with a kbuild package of their own.
		if k.kbuild = "linux-kbuild-" + series; strings.HasPrefix(m[2], "+") {
			k.kbuild = "linux-kbuild-" + m[1]
		}
	}
	if newest == len(versions) {
		return k, fmt.Errorf("no kernel package of a version that %s has: %s", k.source, strings.Join(versions, ", "))
	}
	return k, nil
}

// 'URI' file size hash
var uriLine = regexp.MustCompile(`(?m)^'[^']*' (([^_ ]+)_\S+) (\d+) `)

// fetch returns the file of each package, a name or name=version, by name, downloading those that
// are not in the cache.
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
		name, _, _ := strings.Cut(p, "=")
		if files[name] == "" {
			return nil, fmt.Errorf("apt names no file for %s", p)
		}
		if !hasSize(files[name], sizes[name]) {
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
		if name, _, _ := strings.Cut(p, "="); !hasSize(files[name], sizes[name]) {
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
