// Real file systems, each with handles of both kinds: the conformance list for every FS, and
// handles after eviction, restart and remount.

package osfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/fstest"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// A fsKind is a file system that a machine may have.
type fsKind struct {
	name     string
	programs []string
	mount    func(t *testing.T, scratch, dir string) // called again to mount it again
	// properties of the file system
	kernel bool // files can be opened by handle
	keeps  bool // handles stay valid after a restart of the server
	posix  bool // passes all of fstest
}

// onImage returns a mount function for a file system image, which mkfs makes.
func onImage(size int64, option string, mkfs ...string) func(*testing.T, string, string) {
	return func(t *testing.T, scratch, dir string) {
		image := filepath.Join(scratch, "image")
		if _, err := os.Stat(image); err != nil {
			must.Succeed(t, os.WriteFile(image, nil, 0o600), os.Truncate(image, size))
			run(t, append(mkfs, image)...)
		}
		run(t, "mount", "-o", "loop"+option, image, dir)
	}
}

// onOverlay returns a mount function for an overlay. Its layers are on one ext4 or, with apart, on
// two; the lower one is base/lower.
func onOverlay(option string, apart bool) func(*testing.T, string, string) {
	return func(t *testing.T, scratch, dir string) {
		lower, upper := filepath.Join(scratch, "base"), filepath.Join(scratch, "base")
		disks := []string{lower}
		if apart {
			upper = filepath.Join(scratch, "upper")
			disks = append(disks, upper)
		}
		if _, err := os.Stat(lower); err != nil {
			for i, disk := range disks {
				images := filepath.Join(scratch, fmt.Sprint("disk", i))
				must.Succeed(t, os.Mkdir(disk, 0o755), os.Mkdir(images, 0o755))
				onImage(96<<20, "", "mkfs.ext4", "-q", "-b", "4096")(t, images, disk)
				t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
			}
			must.Succeed(t, os.Mkdir(lower+"/lower", 0o755), os.Mkdir(upper+"/upper", 0o755), os.Mkdir(upper+"/work", 0o755))
		}
		run(t, "mount", "-t", "overlay", "overlay", "-o",
			fmt.Sprintf("lowerdir=%s/lower,upperdir=%[2]s/upper,workdir=%[2]s/work%[3]s", lower, upper, option), dir)
	}
}

// onBindfs mounts a directory through FUSE.
func onBindfs(t *testing.T, scratch, dir string) {
	source := filepath.Join(scratch, "source")
	must.Succeed(t, os.MkdirAll(source, 0o755))
	run(t, "bindfs", source, dir)
}

// onSSHFS mounts a directory of this machine through SFTP.
func onSSHFS(t *testing.T, scratch, dir string) {
	source := filepath.Join(scratch, "source")
	must.Succeed(t, os.MkdirAll(source, 0o755))
	run(t, sshfs(t, scratch, source, dir)...)
}

// exported has the options that give an overlay kernel handles.
const exported = ",nfs_export=on,index=on"

// isOverlay reports whether k is an overlay.
func (k *fsKind) isOverlay() bool { return strings.HasPrefix(k.name, "overlay") }

// onFAT mounts an image with a FAT16 file system, which needs no program to be made.
func onFAT(t *testing.T, scratch, dir string) {
	image := filepath.Join(scratch, "image")
	if _, err := os.Stat(image); err != nil {
		must.Succeed(t, os.WriteFile(image, fatImage(), 0o600))
	}
	run(t, "mount", "-t", "vfat", "-o", "loop", image, dir)
}

// fatImage returns an empty FAT16 file system with 32 MiB.
func fatImage() []byte {
	const sector, sectors, perCluster, rootEntries, fatSectors = 512, 65536, 4, 512, 65
	b := make([]byte, sectors*sector)
	copy(b, "\xeb\x3c\x90MSDOS5.0")
	le := binary.LittleEndian
	le.PutUint16(b[11:], sector)
	b[13] = perCluster
	le.PutUint16(b[14:], 1) // reserved sectors: only this one
	b[16] = 2               // number of tables
	le.PutUint16(b[17:], rootEntries)
	b[21] = 0xf8 // media type: a disk
	le.PutUint16(b[22:], fatSectors)
	le.PutUint16(b[24:], 32) // sectors in a track
	le.PutUint16(b[26:], 64) // number of heads
	le.PutUint32(b[32:], sectors)
	b[36], b[38] = 0x80, 0x29
	copy(b[43:], "NO NAME    FAT16   ")
	b[510], b[511] = 0x55, 0xaa
	for i := range 2 {
		copy(b[(1+i*fatSectors)*sector:], "\xf8\xff\xff\xff") // repeats the media type
	}
	return b
}

// kernelHas reports whether the kernel has an optional file system.
func kernelHas(fstype string) bool {
	exec.Command("modprobe", fstype).Run()
	b, err := os.ReadFile("/proc/filesystems")
	return err == nil && slices.Contains(strings.Fields(string(b)), fstype)
}

var fsKinds = []fsKind{
	{"ext4", []string{"mkfs.ext4"}, onImage(96<<20, "", "mkfs.ext4", "-q", "-b", "4096"), true, true, true},
	{"ext4 with inodes of 128 bytes", []string{"mkfs.ext4"}, onImage(96<<20, "", "mkfs.ext4", "-q", "-b", "4096", "-I", "128"), true, true, false},
	{"xfs", []string{"mkfs.xfs"}, onImage(320<<20, "", "mkfs.xfs", "-q"), true, true, true},
	{"btrfs", []string{"mkfs.btrfs"}, onImage(160<<20, "", "mkfs.btrfs", "-q"), true, true, true},
	{"overlay", []string{"mkfs.ext4"}, onOverlay("", false), false, false, true},
	{"overlay with nfs_export", []string{"mkfs.ext4"}, onOverlay(exported, false), true, true, true},
	{"overlay of two file systems", []string{"mkfs.ext4"}, onOverlay(",xino=on", true), false, false, false},
	{"overlay of two file systems with nfs_export", []string{"mkfs.ext4"}, onOverlay(exported+",xino=on", true), true, true, true},
	{"bindfs", []string{"bindfs"}, onBindfs, false, false, false},
	{"sshfs", nil, onSSHFS, false, false, false},
	{"vfat", nil, onFAT, false, false, false},
}

// eachFS runs a test on all file systems. remount unmounts the test's file system and mounts it
// again; nothing in it MUST be open.
func eachFS(t *testing.T, test func(t *testing.T, k *fsKind, dir string, remount func())) {
	for i := range fsKinds {
		k := &fsKinds[i]
		if k.name == "vfat" && !kernelHas(k.name) {
			continue // a guest of test/linux has this file system
		}
		t.Run(k.name, func(t *testing.T) { onFS(t, k, test) })
	}
}

// onFS runs a test on one file system.
func onFS(t *testing.T, k *fsKind, test func(t *testing.T, k *fsKind, dir string, remount func())) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root", k.programs...)
	scratch := t.TempDir()
	dir := filepath.Join(scratch, "mnt")
	must.Succeed(t, os.Mkdir(dir, 0o755))
	k.mount(t, scratch, dir)
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	test(t, k, dir, func() {
		must.Succeed(t, unix.Unmount(dir, 0))
		k.mount(t, scratch, dir)
	})
}

// TestFileSystems runs the conformance list.
func TestFileSystems(t *testing.T) {
	eachFS(t, func(t *testing.T, k *fsKind, dir string, _ func()) {
		if !k.posix {
			return
		}
		kinds := map[string]Options{"kernel": {}, "inode": {noKernelHandles: true}}
		if !k.kernel {
			delete(kinds, "kernel")
		}
		for kind, o := range kinds {
			t.Run(kind, func(t *testing.T) {
				fstest.Run(t, func(t *testing.T) nfsserver.FS { return newFS(t, tempDir(t, dir), o) })
			})
		}
	})
}

// someFiles makes files in two directories; each file's content is its path.
func someFiles(t *testing.T, f *FS) map[string]nfsserver.Ref {
	t.Helper()
	refs := map[string]nfsserver.Ref{}
	for _, sub := range []string{"a", "b"} {
		d, _, err := f.Mkdir(me, f.Root(), sub, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
		must.Succeed(t, err)
		for i := range 20 {
			name := fmt.Sprint(i)
			path := sub + "/" + name
			refs[path] = createFile(t, f, d, name, path)
		}
	}
	return refs
}

// checkRefs checks that each Ref leads to the file for which it was made. Unless good is set, a Ref
// may also be stale.
func checkRefs(t *testing.T, f *FS, refs map[string]nfsserver.Ref, good bool, when string) {
	t.Helper()
	for path, r := range refs {
		b := make([]byte, 64)
		n, err := f.ReadAt(me, r, b, 0)
		stale := errors.Is(err, nfsserver.ErrStale) || errors.Is(err, syscall.ESTALE)
		switch {
		case err == nil && string(b[:n]) != path:
			t.Errorf("%s: the handle of %s reads %q", when, path, b[:n])
		case err != nil && good:
			t.Errorf("%s: the handle of %s: %v", when, path, err)
		case err != nil && !stale:
			t.Errorf("%s: the handle of %s: got %v, want it stale", when, path, err)
		}
	}
}

// TestHandlesNameTheirFile: after eviction, restart and remount, and when other files were looked
// up first, a handle reads its own file. It is stale only if the file system does not keep the
// facts needed.
func TestHandlesNameTheirFile(t *testing.T) {
	eachFS(t, func(t *testing.T, k *fsKind, mnt string, remount func()) {
		for i, o := range []Options{{}, {noKernelHandles: true}, {SubtreeCheck: true}} {
			dir := filepath.Join(mnt, fmt.Sprint("export", i))
			must.Succeed(t, os.Mkdir(dir, 0o755))
			f := newFS(t, dir, o)
			if got := f.KernelHandles(); got != (k.kernel && !o.noKernelHandles) {
				t.Errorf("kernel handles: %v", got)
			}
			if k.kernel != k.keeps || f.KeepsHandles() != (k.keeps && (!o.noKernelHandles || f.top.magic != unix.OVERLAYFS_SUPER_MAGIC)) {
				t.Errorf("handles outlive the server: %v", f.KeepsHandles())
			}
			keeps := f.KeepsHandles()
			refs := someFiles(t, f)
			checkRefs(t, f, refs, true, "at once")
			f.cache.closeAll()
			f.flush.done.Wait()
			checkRefs(t, f, refs, true, "after eviction")
			for round, before := range []func(){func() {}, remount, remount} {
				f.Close()
				before()
				runID++ // as if in another process
				f = newFS(t, dir, o)
				if round == 2 { // looks up files in another order than they were made
					for _, path := range slices.Sorted(maps.Keys(refs)) {
						d, _, err := f.Lookup(me, f.Root(), filepath.Dir(path))
						must.Succeed(t, err)
						_, _, err = f.Lookup(me, d, filepath.Base(path))
						must.Succeed(t, err)
					}
				}
				checkRefs(t, f, refs, keeps, fmt.Sprintf("%+v, after restart %d", o, round))
			}
			f.Close()
		}
	})
}

// TestGranularityOfTimes: FSINFO reports how precisely the disk keeps times.
func TestGranularityOfTimes(t *testing.T) {
	eachFS(t, func(t *testing.T, k *fsKind, mnt string, remount func()) {
		f := newFS(t, mnt, Options{})
		delta := f.Info().TimeDelta
		r := createFile(t, f, f.Root(), "f", "")
		const sec, nsec = 1234567890, 999999999
		at := nfsserver.Time{Sec: sec, Nsec: nsec}
		// libfuse 2 ignores a single time
		set := nfsserver.SetAttr{Mask: nfsserver.SetAtime | nfsserver.SetMtime, Atime: at, Mtime: at}
		must.Succeed(t, f.Setattr(me, r, &set))
		f.Close()
		remount()
		f = newFS(t, mnt, Options{})
		_, a, err := f.Lookup(me, f.Root(), "f")
		must.Succeed(t, err)
		want := nfsserver.Time{Sec: sec}
		if delta.Sec == 0 {
			want.Nsec = nsec / delta.Nsec * delta.Nsec
		} else {
			want.Sec = sec / delta.Sec * delta.Sec
		}
		if a.Mtime != want {
			t.Errorf("with a granularity of %v the disk keeps %v of %v", delta, a.Mtime, set.Mtime)
		}
		f.Close()
	})
}

// TestNumberUsedAgain: if a new file gets a removed file's inode number, it does not get the
// removed file's handle.
func TestNumberUsedAgain(t *testing.T) {
	eachFS(t, func(t *testing.T, k *fsKind, mnt string, _ func()) {
		for i, o := range []Options{{}, {noKernelHandles: true}} {
			dir := filepath.Join(mnt, fmt.Sprint("export", i))
			must.Succeed(t, os.Mkdir(dir, 0o755))
			f := newFS(t, dir, o)
			for range 50 {
				old := createFile(t, f, f.Root(), "x", "old")
				must.Succeed(t, os.Remove(filepath.Join(dir, "x")))
				f.cache.closeAll()
				f.flush.done.Wait()
				fresh := createFile(t, f, f.Root(), "y", "new")
				b := make([]byte, 8)
				if n, err := f.ReadAt(me, old, b, 0); err == nil || old == fresh {
					t.Fatalf("%+v: the handle of a removed file reads %q of another", o, b[:n])
				}
				must.Succeed(t, f.Remove(me, f.Root(), "y"))
			}
			f.Close()
		}
	})
}

// TestAnotherFileSystemInItsPlace: handles of the file system that was mounted before open nothing
// on the one mounted now.
func TestAnotherFileSystemInItsPlace(t *testing.T) {
	eachFS(t, func(t *testing.T, k *fsKind, mnt string, remount func()) {
		image := filepath.Join(filepath.Dir(mnt), "image")
		if _, err := os.Stat(image); err != nil || !k.keeps || k.isOverlay() {
			return // needs a file system on an image of its own
		}
		for _, o := range []Options{{}, {noKernelHandles: true}} {
			f := newFS(t, mnt, o)
			r := createFile(t, f, f.Root(), "public", "public")
			f.Close()
			must.Succeed(t, os.Remove(image)) // the next image has the same name and loop device
			remount()
			write(t, "secret", mnt, "secret")
			f = newFS(t, mnt, o)
			mustStale(t, f, r, fmt.Sprintf("%+v: a handle of another file system", o))
			_, _, err := f.Lookup(me, f.Root(), "secret")
			must.Succeed(t, err)
			b := make([]byte, 8)
			if n, err := f.ReadAt(me, r, b, 0); err == nil {
				t.Errorf("%+v: a handle of another file system reads %q", o, b[:n])
			}
			f.Close()
		}
	})
}

// TestSnapshots: a btrfs subvolume and its snapshot have the same inode numbers, but different
// handles. A remount does not exchange them.
func TestSnapshots(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root", "mkfs.btrfs", "btrfs")
	for _, o := range []Options{{}, {noKernelHandles: true}} {
		scratch := t.TempDir()
		dir := filepath.Join(scratch, "mnt")
		must.Succeed(t, os.Mkdir(dir, 0o755))
		mount := onImage(160<<20, "", "mkfs.btrfs", "-q")
		mount(t, scratch, dir)
		t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
		run(t, "btrfs", "subvolume", "create", filepath.Join(dir, "home"))
		write(t, "old", dir, "home", "a")
		run(t, "btrfs", "subvolume", "snapshot", filepath.Join(dir, "home"), filepath.Join(dir, "snap"))
		write(t, "new", dir, "home", "a")
		f := newFS(t, dir, o)
		refs, attrs := map[string]nfsserver.Ref{}, map[string]nfsserver.Attr{}
		for sub, want := range map[string]string{"home": "new", "snap": "old"} {
			d, a, err := f.Lookup(me, f.Root(), sub)
			must.Succeed(t, err)
			_, err = f.ReadDir(me, f.Root(), 0, false, func(de *nfsserver.Dirent) bool {
				if string(de.Name) == sub && de.Fileid != a.Fileid {
					t.Errorf("%s is listed with fileid %d, and has %d", sub, de.Fileid, a.Fileid)
				}
				return true
			})
			must.Succeed(t, err)
			refs[want], attrs[sub], err = f.Lookup(me, d, "a")
			must.Succeed(t, err)
		}
		if attrs["home"].Fsid == attrs["snap"].Fsid || attrs["home"].Fileid != attrs["snap"].Fileid {
			t.Errorf("fsids %x and %x of inodes %d and %d", attrs["home"].Fsid, attrs["snap"].Fsid, attrs["home"].Fileid, attrs["snap"].Fileid)
		}
		for _, first := range []string{"snap", "home"} {
			f.Close()
			must.Succeed(t, unix.Unmount(dir, 0))
			mount(t, scratch, dir)
			// makes the kernel give device numbers in another order
			_, err := os.Stat(filepath.Join(dir, first))
			must.Succeed(t, err)
			f = newFS(t, dir, o)
			for want, r := range refs {
				b := make([]byte, 8)
				if n, err := f.ReadAt(me, r, b, 0); err != nil || string(b[:n]) != want {
					t.Errorf("%+v, %s looked up first: %q, %v, want %q", o, first, b[:n], err, want)
				}
				if a, err := f.Getattr(r); err != nil || a.Fsid != attrs[map[string]string{"new": "home", "old": "snap"}[want]].Fsid {
					t.Errorf("%+v: the fsid has changed to %x, %v", o, a.Fsid, err)
				}
			}
		}
		f.Close()
	}
}

// page lists up to n names from the cookie on.
func page(t *testing.T, f *FS, d nfsserver.Ref, cookie uint64, n int) (names []string, last uint64, eof bool) {
	t.Helper()
	last = cookie
	eof, err := f.ReadDir(me, d, cookie, false, func(de *nfsserver.Dirent) bool {
		if len(names) == n {
			return false
		}
		names, last = append(names, string(de.Name)), de.Cookie
		return true
	})
	must.Succeed(t, err)
	return names, last, eof
}

// TestListingsDoNotDisturb: a client lists a directory and removes the listed files, while another
// client begins to list it. The first client gets each name exactly once.
func TestListingsDoNotDisturb(t *testing.T) {
	eachFS(t, func(t *testing.T, k *fsKind, mnt string, remount func()) {
		const files, first = 600, 200
		for i := range files {
			write(t, "", mnt, "d", fmt.Sprint("f", i))
		}
		// an overlay keeps lists only of merged directories, so merge d
		if k.isOverlay() {
			must.Succeed(t, os.MkdirAll(filepath.Join(filepath.Dir(mnt), "base", "lower", "d"), 0o755))
			remount()
		}
		f := newFS(t, mnt, Options{})
		defer f.Close()
		d, _, err := f.Lookup(me, f.Root(), "d")
		must.Succeed(t, err)
		seen := map[string]int{}
		names, cookie, eof := page(t, f, d, 0, first)
		for !eof {
			for _, name := range names {
				if seen[name]++; name != "." && name != ".." {
					must.Succeed(t, f.Remove(me, d, name))
				}
			}
			page(t, f, d, 0, 50) // another client begins
			names, cookie, eof = page(t, f, d, cookie, first)
		}
		for _, name := range names {
			seen[name]++
		}
		for i := range files {
			if n := seen[fmt.Sprint("f", i)]; n != 1 {
				t.Errorf("f%d was listed %d times", i, n)
			}
		}
	})
}
