// The group that tells what processes have in memory once all files of a large tree have been looked at.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// memoryDir is how many files are in a directory of the tree.
const memoryDir = 1000

// measureMemory makes the tree and has each mount show all of it.
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
		if err := j.look(ctx, kind, dirs*memoryDir); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// makeTree makes empty files, in the volume through JuiceFS's mount and in the directory.
func (j *juice) makeTree(ctx context.Context, dirs int) error {
	m, err := j.mount(ctx, mountJuice)
	if err != nil {
		return err
	}
	_, before, err := j.redis.counts()
	if err != nil {
		return err
	}
	for _, root := range []string{m.at, j.b.served} {
		for i := range dirs {
			dir := filepath.Join(root, "tree", strconv.Itoa(i))
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
	}
	_, after, err := j.redis.counts()
	if err != nil {
		return err
	}
	j.b.samples.add("juicefs-memory/redis", (after-before)/float64(dirs*memoryDir))
	return j.unmount(m)
}

// look mounts, looks at all files, and adds what the processes have of memory before and after.
func (j *juice) look(ctx context.Context, kind string, files int) error {
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
