// Package documentation: what the engine promises.

// Package datapath is the read-ahead and write-behind of a mount. It knows files
// by their NFSv3 handles only: no paths, no attributes, no FUSE.
//
//   - Engine is the state of a mount: its bounds of memory, its background work.
//   - File is the state of one file, shared by all who have it open.
//   - Handle is one open file: it finds sequential readers, and it is told each
//     write error once.
//
// What has been written is seen by reads of the same Engine from then on, and is on
// its way to the server. It is stable there once Sync or Flush has returned nil.
// A context bounds a wait, never the data: what was accepted is written even if
// the one who wrote it has stopped waiting.
package datapath
