// Copying one file or symbolic link.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"golang.org/x/sync/errgroup"
)

// one copies the file or link m of from to newName of to, with mode and times.
func (c *copier) one(ctx context.Context, from, to dir, m meta, newName string) error {
	dst := m
	dst.name = newName
	if !m.mode.IsRegular() {
		target, err := from.readlink(ctx, m)
		if err != nil {
			return err
		}
		c.links.Add(1)
		return to.symlink(ctx, target, dst)
	}
	if m.size == 0 {
		c.files.Add(1)
		return to.put(ctx, dst, nil)
	}
	src, err := from.open(ctx, m)
	if err != nil {
		return err
	}
	defer src.Close()
	return c.file(ctx, src, to, dst)
}

// file copies the content of src to the file m of to.
func (c *copier) file(ctx context.Context, src source, to dir, m meta) error {
	c.files.Add(1)
	if m.size <= blockSize {
		return c.small(ctx, src, to, m)
	}
	return c.large(ctx, src, to, m)
}

// small copies a file of one block: read whole, then written whole.
func (c *copier) small(ctx context.Context, src source, to dir, m meta) error {
	b := c.blocks.Get().(*[]byte)
	defer c.blocks.Put(b)
	n, err := readFull(src, (*b)[:m.size], 0)
	if err != nil {
		return err
	}
	if err := to.put(ctx, m, (*b)[:n]); err != nil {
		return err
	}
	c.bytes.Add(int64(n))
	return nil
}

// errChanged is a file that got shorter while it was copied.
var errChanged = errors.New("file changed while it was copied")

// readFull reads all of p; the end of the file before it is an error.
func readFull(src io.ReaderAt, p []byte, off int64) (int, error) {
	n, err := src.ReadAt(p, off)
	if n == len(p) {
		return n, nil
	}
	if err == nil || err == io.EOF {
		err = errChanged
	}
	return n, err
}

// maxResend is how many times a file is sent again to a server that restarts while it is copied.
const maxResend = 3

// large copies a file block by block with several blocks in flight.
func (c *copier) large(ctx context.Context, src source, to dir, m meta) error {
	for try := 0; ; try++ {
		err := c.pour(ctx, src, to, m)
		if try == maxResend || !errors.Is(err, nfsclient.ErrLostWrites) {
			return err
		}
	}
}

// sameSize compares the size of a copy with that of the original.
func sameSize(got, want int64) error {
	if got != want {
		return fmt.Errorf("the copy has %d octets, the original %d", got, want)
	}
	return nil
}

// pour moves the content; data is safe on the other side when it returns nil.
func (c *copier) pour(ctx context.Context, src source, to dir, m meta) error {
	dst, err := to.create(ctx, m)
	if err != nil {
		return err
	}
	var moved atomic.Int64
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(blockWindow)
	for off := int64(0); off < m.size && gctx.Err() == nil; off += blockSize {
		g.Go(func() error {
			b := c.blocks.Get().(*[]byte)
			defer c.blocks.Put(b)
			n, err := readFull(src, (*b)[:min(blockSize, m.size-off)], off)
			if err != nil {
				return err
			}
			if _, err := dst.WriteAt((*b)[:n], off); err != nil {
				return err
			}
			moved.Add(int64(n))
			c.bytes.Add(int64(n))
			return nil
		})
	}
	if err = g.Wait(); err == nil {
		err = dst.finish(ctx, m)
	} else {
		dst.abort()
	}
	if err != nil {
		c.bytes.Add(-moved.Load())
	}
	return err
}
