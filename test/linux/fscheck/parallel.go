// Checks of concurrency: threads of one process, and several processes.

package fscheck

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
)

func parallel(e Env) error {
	const workers, files = 8, 12
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			dir := Env{Dir: e.path(fmt.Sprint(w))}
			errs[w] = os.Mkdir(dir.Dir, 0o755)
			for i := 0; i < files && errs[w] == nil; i++ {
				b := data(1+i*20_011, uint64(w))
				errs[w] = errors.Join(put(dir.path(fmt.Sprint(i)), b), holds(dir.path(fmt.Sprint(i)), b))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(append(errs, e.Forget())...); err != nil {
		return err
	}
	for w := range workers {
		for i := range files {
			if err := holds(e.path(fmt.Sprint(w), fmt.Sprint(i)), data(1+i*20_011, uint64(w))); err != nil {
				return err
			}
		}
	}
	return nil
}

// processScript runs in several processes: each makes, renames and removes its own files, and reads
// one shared file.
const processScript = `set -e
mkdir "$1" && cd "$1"
i=0
while [ $i -lt 9 ]; do
	echo "process $1 line $i" > new
	mv new "f$i"
	cat "f$i" >> all
	cmp ../shared ../shared
	[ $((i % 3)) != 0 ] || rm "f$i"
	i=$((i + 1))
done
cp ../shared copy`

func processes(e Env) error {
	const count = 5
	shared := data(200_003, 12)
	if err := put(e.path("shared"), shared); err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, count)
	for i := range count {
		wg.Go(func() {
			cmd := exec.Command("/bin/sh", "-c", processScript, "sh", fmt.Sprint(i))
			cmd.Dir = e.Dir
			if out, err := cmd.CombinedOutput(); err != nil {
				errs[i] = fmt.Errorf("process %d: %w: %s", i, err, out)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(append(errs, e.Forget())...); err != nil {
		return err
	}
	for i := range count {
		var all strings.Builder
		for line := range 9 {
			text := fmt.Sprintf("process %d line %d\n", i, line)
			all.WriteString(text)
			var err error
			if f := e.path(fmt.Sprint(i), fmt.Sprintf("f%d", line)); line%3 == 0 {
				err = wants(f, statErr(f), os.ErrNotExist)
			} else {
				err = holds(f, []byte(text))
			}
			if err != nil {
				return err
			}
		}
		if err := errors.Join(holds(e.path(fmt.Sprint(i), "all"), []byte(all.String())), holds(e.path(fmt.Sprint(i), "copy"), shared)); err != nil {
			return err
		}
	}
	return nil
}
