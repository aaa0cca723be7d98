// The commands' end of the socket.

package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"
	"time"
)

// ErrNoServer means that no server answers at the socket.
var ErrNoServer = errors.New("no server answers")

// answerWait limits the wait for an answer. A reload opens directories, so it may be slow.
const answerWait = time.Minute

// Ask sends a command to the server at a socket and decodes the JSON result into v. The error is a
// *RefusedError if the server refused, and ErrNoServer if no server answers.
func Ask(ctx context.Context, path, command string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w at %s", ErrNoServer, path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: only root and the user who runs the server can ask it: run this as one of them", path)
	case err != nil:
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := json.Marshal(&request{version, command})
	if err != nil {
		return err
	}
	// A server that refuses us may close before it reads the request, so ignore a failed write and
	// read the answer.
	_, _ = c.Write(append(line, '\n'))
	answer, err := bufio.NewReader(io.LimitReader(c, maxReply)).ReadBytes('\n')
	switch {
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("the server at %s gives no answer: %w", path, err)
	}
	result, err := parseReply(bytes.TrimSpace(answer))
	if err == nil {
		err = json.Unmarshal(result, v)
	}
	if _, refused := errors.AsType[*RefusedError](err); err != nil && !refused {
		return fmt.Errorf("the server at %s: %w", path, err)
	}
	return err
}
