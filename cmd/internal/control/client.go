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

// ErrNoServer is a socket that no server answers at.
var ErrNoServer = errors.New("no server answers")

// answerWait is how long an answer may take: a reload opens directories.
const answerWait = time.Minute

// Ask sends a command to the server at a socket and reads the result into v, by its JSON. A *RefusedError is the server's word;
// ErrNoServer: there is none.
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
	// A server that refuses us does not wait for the request: its answer counts.
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
