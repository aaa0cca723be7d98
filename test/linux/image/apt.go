// Downloads Debian packages without installing them.

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

// apt downloads into debs. It uses a private copy of the package lists below state if the
// machine's are missing or outdated and we must not refresh them. It does so, too, for a release
// that the machine's lists do not have.
type apt struct {
	ctx     context.Context
	log     Log
	debs    string
	state   string
	release string // of Debian, "": the machine's

	private   bool
	refreshed bool
}

func (a *apt) opts(args ...string) []string {
	var opts []string
	if a.private || a.release != "" {
		opts = append(opts, "-o", "Dir::State::lists="+filepath.Join(a.state, "lists"), "-o", "Dir::Cache="+filepath.Join(a.state, "cache"))
	}
	if a.release != "" {
		// Ignore the packages installed on this machine.
		opts = append(opts, "-o", "Dir::Etc::sourcelist="+a.sources(), "-o", "Dir::Etc::sourceparts=/dev/null", "-o", "Dir::State::status=/dev/null",
			"-o", "Acquire::Languages=none", "-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false")
	}
	return append(opts, args...)
}

// sources returns the file with the source of a release.
func (a *apt) sources() string { return filepath.Join(a.state, "sources.list") }

// makeState makes the files below state.
func (a *apt) makeState() error {
	for _, dir := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(a.state, dir), 0o755); err != nil {
			return err
		}
	}
	if a.release == "" {
		return nil
	}
	const source = "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian %s main\n"
	return os.WriteFile(a.sources(), fmt.Appendf(nil, source, a.release), 0o644)
}

// refresh runs apt-get update, once.
func (a *apt) refresh() error {
	if a.refreshed {
		return fmt.Errorf("the package lists were just refreshed")
	}
	a.refreshed = true
	a.private = os.Geteuid() != 0
	if a.private || a.release != "" {
		if err := a.makeState(); err != nil {
			return err
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

// kernel finds the newest kernel of a series with a source package of the same version. The archive
// sometimes has a source days before the signed kernel of the same version.
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

var (
	packageLine = regexp.MustCompile(`(?m)^Package: (.*)$`)
	versionLine = regexp.MustCompile(`(?m)^Version: (.*)$`)
)

// versions returns all versions of a package, the newest first.
func (a *apt) versions(pkg string) (all []string, err error) {
	out, err := run(a.ctx, nil, "apt-cache", a.opts("show", pkg)...)
	for _, m := range versionLine.FindAllStringSubmatch(out, -1) {
		all = append(all, m[1])
	}
	return all, err
}

// images returns the newest version of each package of a kernel of the series, by name.
func (a *apt) images(series string) (map[string]string, error) {
	names, err := run(a.ctx, nil, "apt-cache", a.opts("pkgnames", "linux-image-"+series+".")...)
	if err != nil {
		return nil, err
	}
	out, err := run(a.ctx, nil, "apt-cache", a.opts(append([]string{"show", "--no-all-versions"}, strings.Fields(names)...)...)...)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for record := range strings.SplitSeq(out, "\n\n") {
		name, version := packageLine.FindStringSubmatch(record), versionLine.FindStringSubmatch(record)
		if name != nil && version != nil {
			all[name[1]] = version[1]
		}
	}
	return all, nil
}

func (a *apt) findKernel(series string) (kernelPackages, error) {
	sources, err := a.versions("linux-source-" + series)
	if err != nil {
		return kernelPackages{}, err
	}
	images, err := a.images(series)
	if err != nil {
		return kernelPackages{}, err
	}
	return newestKernel(series, sources, images)
}

// newestKernel finds the kernel of the first version in sources that is also in images, a map from
// package names to versions.
func newestKernel(series string, sources []string, images map[string]string) (k kernelPackages, err error) {
	release := regexp.MustCompile(`^linux-image-(` + regexp.QuoteMeta(series) + `\.\d+(-\d+|\+deb12))-amd64$`)
	k.source = "linux-source-" + series
	for _, k.version = range sources {
		for name, version := range images {
			m := release.FindStringSubmatch(name)
			if m == nil || version != k.version {
				continue
			}
			k.release, k.image = m[1]+"-amd64", name
			k.headers, k.common = "linux-headers-"+k.release, "linux-headers-"+m[1]+"-common"
			// Backported kernels have a separate kbuild package.
			if k.kbuild = "linux-kbuild-" + series; strings.HasPrefix(m[2], "+") {
				k.kbuild = "linux-kbuild-" + m[1]
			}
			return k, nil
		}
	}
	return k, fmt.Errorf("no kernel package has a version of %s: %s", k.source, strings.Join(sources, ", "))
}

// uriLine matches a line of apt-get --print-uris: 'URI' file size hash
var uriLine = regexp.MustCompile(`(?m)^'[^']*' (([^_ ]+)_\S+) (\d+) `)

// fetch returns each package's file, by name. A package is a name or name=version. Missing files
// are downloaded.
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

// download runs apt-get in the cache directory; apt-get verifies the hashes.
func (a *apt) download(pkgs []string) error {
	args := a.opts(append([]string{"-qq", "download"}, pkgs...)...)
	_, err := run(a.ctx, nil, "env", append([]string{"-C", a.debs, "apt-get"}, args...)...)
	return err
}

func hasSize(path string, size int64) bool {
	st, err := os.Stat(path)
	return err == nil && st.Size() == size
}
