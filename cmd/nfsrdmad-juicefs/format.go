// The command format: makes a new volume.

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"
	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/volumes"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs"
	"github.com/spf13/cobra"
)

// format makes the volume described by the flags.
func format(c *cobra.Command, o *volumes.Format) error {
	n := juicefs.New{Meta: o.Meta, Name: o.Name, Storage: o.Storage, Bucket: o.Bucket, AccessKey: o.AccessKey,
		Compression: o.Compression, Inodes: o.Inodes, TrashDays: o.TrashDays, Replace: o.Replace}
	if err := keys(&n, o.SecretKeyFile); err != nil {
		return err
	}
	if o.Capacity != "" {
		size, err := program.ParseSize(o.Capacity)
		if err != nil {
			return fmt.Errorf("--capacity %s: %w", o.Capacity, err)
		}
		n.Capacity = uint64(size)
	}
	if err := n.Make(c.Context()); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "juicefs: "))
	}
	fmt.Fprintf(c.OutOrStdout(), "volume %s created: nfsrdmad-juicefs serve %s=/%s\n", n.Name, juicefs.Label(n.Meta), n.Name)
	return nil
}

// keys reads the keys of the object storage from places that are hidden from other users.
func keys(n *juicefs.New, secretFile string) error {
	if n.AccessKey == "" {
		n.AccessKey = os.Getenv("ACCESS_KEY")
	}
	n.SecretKey, n.SessionToken = os.Getenv("SECRET_KEY"), os.Getenv("SESSION_TOKEN")
	if secretFile == "" {
		return nil
	}
	b, err := os.ReadFile(secretFile)
	if err != nil {
		return fmt.Errorf("--secret-key-file: %w", err)
	}
	n.SecretKey, _, _ = strings.Cut(string(b), "\n")
	n.SecretKey = strings.TrimSuffix(n.SecretKey, "\r")
	return nil
}
