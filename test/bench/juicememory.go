// The group that measures the memory of processes after all files of a large tree have been looked
// up.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// memoryDir is the number of files per directory of the tree.
const memoryDir = 1000

// measureMemory makes the tree and walks it on each mount.
func (b *bed) measureMemory(ctx context.Context) error {
	j, err := b.volumeOf(ctx)
	if err != nil {
		return err
	}
	dirs := max(b.config.files/memoryDir, 1)
	if err := j.makeTree(ctx, dirs); err != nil {
		return err
	}
	for _, kind := range mountKinds {
		if err := j.lookUpAll(ctx, kind, dirs*memoryDir); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// makeTree makes empty files in the directory and in a separate volume. The volume's metadata is
// loaded from a dump, because a million calls take long.
func (j *juice) makeTree(ctx context.Context, dirs int) error {
	for i := range dirs {
		dir := filepath.Join(j.b.served, "tree", strconv.Itoa(i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if _, err := touchFiles(dir, memoryDir, workAtOnce); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	empty, err := j.format(2)
	if err != nil {
		return err
	}
	dump := filepath.Join(j.b.base, "dump.json")
	if err := command(j.program("juicefs"), "--no-agent", "dump", empty, dump); err != nil {
		return err
	}
	text, err := os.ReadFile(dump)
	if err != nil {
		return err
	}
	if text, err = plantTree(text, dirs, memoryDir); err != nil {
		return err
	}
	if err := os.WriteFile(dump, text, 0o644); err != nil {
		return err
	}
	_, before, err := j.redis.counts()
	if err != nil {
		return err
	}
	j.volume = j.redis.url(3)
	if err := command(j.program("juicefs"), "--no-agent", "load", j.volume, dump); err != nil {
		return err
	}
	_, after, err := j.redis.counts()
	if err != nil {
		return err
	}
	j.b.samples.add("juicefs-memory/redis", (after-before)/float64(dirs*memoryDir))
	return nil
}

// plantTree adds a directory "tree", with directories of empty files, to the dump of an empty
// volume.
func plantTree(dump []byte, dirs, files int) ([]byte, error) {
	const entries = "\"entries\": {"
	begin, rest, ok := bytes.Cut(dump, []byte(entries)) // the root's entries; the trash follows
	if !ok {
		return nil, fmt.Errorf("a dump without entries: %.200q", dump)
	}
	inode, out := 1, bytes.NewBuffer(nil)
	attr := func(kind string, mode int) {
		inode++
		fmt.Fprintf(out, `"attr":{"inode":%d,"type":%q,"mode":%d,"uid":0,"gid":0,"atime":1700000000,"mtime":1700000000,"ctime":1700000000,"nlink":%d,"length":0}`,
			inode, kind, mode, map[string]int{"regular": 1, "directory": 2}[kind])
	}
	each := func(n int, name string, do func()) {
		for i := range n {
			if i > 0 {
				out.WriteByte(',')
			}
			fmt.Fprintf(out, "%q:{", fmt.Sprintf(name, i))
			do()
			out.WriteByte('}')
		}
	}
	out.Write(begin)
	out.WriteString(entries)
	each(1, "tree%.0d", func() {
		attr("directory", 0o755)
		out.WriteString("," + entries)
		each(dirs, "%d", func() {
			attr("directory", 0o755)
			out.WriteString("," + entries)
			each(files, "file%07d", func() { attr("regular", 0o644) })
			out.WriteByte('}')
		})
		out.WriteByte('}')
	})
	out.Write(rest)
	return out.Bytes(), nil
}

// lookUpAll mounts, looks up all files, and adds the processes' memory before and after.
func (j *juice) lookUpAll(ctx context.Context, kind string, files int) error {
	m, err := j.mount(ctx, kind)
	if err != nil {
		return err
	}
	at := "juicefs-memory/" + kind
	note := func(when string) error {
		for name, pid := range m.pids(j.redis) {
			rss, err := resident(pid)
			if err != nil {
				return err
			}
			j.b.samples.add(at+"/"+name+"/"+when, float64(rss)/1e6)
		}
		return nil
	}
	if err := note("before"); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := output(exec.CommandContext(ctx, self, "_work", "walk", filepath.Join(m.at, "tree"), strconv.Itoa(files), "1"))
	if err != nil {
		return err
	}
	var d done
	if err := json.Unmarshal(out, &d); err != nil {
		return err
	}
	j.b.samples.add(at+"/seconds", d.Seconds)
	if err := note("after"); err != nil {
		return err
	}
	return j.unmount(m)
}
