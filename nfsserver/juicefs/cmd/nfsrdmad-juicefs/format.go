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
		Long: `Make a JuiceFS volume with its metadata in a service and its objects in an object storage, as juicefs format does. The volume
can then be served by nfsrdmad-juicefs and mounted by juicefs mount.

The bucket is made where it is lacking, and an object is stored and read first: nothing is made where that fails. A
metadata service that has a volume is left alone, unless --replace has the name of that volume: its files are lost then.

Passwords do not belong on a command line. The one of the metadata service is taken from META_PASSWORD, or for Redis from the file
META_PASSWORD_FILE, and the keys of the object storage from ACCESS_KEY, SECRET_KEY and SESSION_TOKEN; or the secret
key is the first line of --secret-key-file. They are kept in the metadata, the secret ones encrypted.`,
		Example: `  META_PASSWORD=... SECRET_KEY=... nfsrdmad-juicefs format --storage s3 --bucket https://s3.example.org/data --access-key joe redis://10.0.0.9/1 data
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
	f.StringVar(&n.Storage, "storage", "file", "object storage, in JuiceFS's words: file, s3, minio, gs ...")
	f.StringVar(&n.Bucket, "bucket", "", "URL of the bucket, or directory of this machine for file")
	f.StringVar(&n.AccessKey, "access-key", "", "access key of the object storage (default: ACCESS_KEY)")
	f.StringVar(&secretFile, "secret-key-file", "", "file with the secret key (default: SECRET_KEY)")
	f.StringVar(&n.Compression, "compress", "", "compress blocks: lz4 or zstd")
	f.StringVar(&capacity, "capacity", "", "most bytes of all files (K, M or G; default: no limit)")
	f.Uint64Var(&n.Inodes, "inodes", 0, "most files and directories (0: no limit)")
	f.IntVar(&n.TrashDays, "trash-days", 0, "days that removed files stay in the trash")
	f.StringVar(&n.Replace, "replace", "", "existing volume to replace: its files are lost")
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
