// The command format: a new volume.

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs"
	"github.com/spf13/cobra"
)

func newFormat() *cobra.Command {
	var n juicefs.New
	var secretFile, capacity string
	c := &cobra.Command{
		Use:   "format METADATA-URL NAME",
		Short: "Make a volume",
		Long: `Make a JuiceFS volume, as juicefs format does. Its metadata is in a service, and its
objects are in an object storage. Then nfsrdmad-juicefs can serve the volume, and
juicefs mount can mount it.

If the bucket is missing, it is made. An object is stored and read as a test. If the
test fails, no volume is made. A metadata service that already has a volume is an
error. --replace with the name of that volume replaces it, and its files are lost.

Do not put passwords on a command line. The password of the metadata service comes
from META_PASSWORD, or for Redis from the file META_PASSWORD_FILE. The keys of the
object storage come from ACCESS_KEY, SECRET_KEY and SESSION_TOKEN. The secret key can
also be the first line of --secret-key-file. The metadata keeps the keys, and encrypts
the secret ones.`,
		Example: `  # with META_PASSWORD and SECRET_KEY in the environment
  nfsrdmad-juicefs format --storage s3 --bucket https://s3.example.org/data \
      --access-key joe redis://10.0.0.9/1 data

  nfsrdmad-juicefs format --bucket /srv/objects redis://127.0.0.1/1 data`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			n.Meta, n.Name = args[0], args[1]
			if err := keys(&n, secretFile); err != nil {
				return err
			}
			if capacity != "" {
				size, err := program.ParseSize(capacity)
				if err != nil {
					return fmt.Errorf("--capacity %s: %w", capacity, err)
				}
				n.Capacity = uint64(size)
			}
			if err := n.Make(c.Context()); err != nil {
				return errors.New(strings.TrimPrefix(err.Error(), "juicefs: "))
			}
			fmt.Fprintf(c.OutOrStdout(), "volume %s created: nfsrdmad-juicefs serve %s=/%s\n", n.Name, juicefs.Label(n.Meta), n.Name)
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&n.Storage, "storage", "file", "kind of object `STORAGE`, as in JuiceFS: file, s3, minio, gs ...")
	f.StringVar(&n.Bucket, "bucket", "", "`URL` of the bucket, or a directory of this machine for file")
	f.StringVar(&n.AccessKey, "access-key", "", "access `KEY` of the object storage (default: ACCESS_KEY)")
	f.StringVar(&secretFile, "secret-key-file", "", "`FILE` with the secret key (default: SECRET_KEY)")
	f.StringVar(&n.Compression, "compress", "", "compress blocks: lz4 or zstd")
	f.StringVar(&capacity, "capacity", "", "hold at most `SIZE` bytes, with K, M or G (default: no limit)")
	f.Uint64Var(&n.Inodes, "inodes", 0, "hold at most `N` files and directories; 0: no limit")
	f.IntVar(&n.TrashDays, "trash-days", 0, "keep removed files `N` days in the trash")
	f.StringVar(&n.Replace, "replace", "", "replace the existing volume `NAME`: its files are lost")
	return c
}

// keys takes the keys of the object storage from places that other users do not see.
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
