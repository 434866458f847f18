package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/keelson-dev/keelson/storage"
	"github.com/keelson-dev/keelson/storage/snapshot"
	"github.com/keelson-dev/keelson/storage/transfer"
)

// run executes the command line: results go to out, progress to errOut.
func run(ctx context.Context, args []string, out, errOut io.Writer) error {
	s, err := parse(args, out)
	if err != nil {
		return err
	}
	s.progress = errOut
	if s.quiet {
		s.progress = io.Discard
	}
	switch s.command {
	case "snapshot":
		return s.snapshot(ctx, out)
	case "check":
		return s.checkFile(ctx, out)
	case "restore":
		return s.restore(ctx, out)
	case "copy":
		return s.copy(ctx, out)
	case "verify":
		return s.verify(ctx, out)
	}
	return s.compact(ctx, out)
}

func (s *settings) snapshot(ctx context.Context, out io.Writer) (err error) {
	from, err := s.source(ctx, s.args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.close(err != nil)) }()
	path := strings.TrimPrefix(s.args[1], "file:")
	show := s.showing("written")
	info, err := snapshot.WriteFile(ctx, path, from, snapshot.WriteOptions{Prefix: s.prefix, Progress: func(i snapshot.Info) { show(i.Records, i.Bytes) }})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s of revision %d\n", path, amount(info.Records, info.Bytes), info.Revision)
	return nil
}

func (s *settings) checkFile(ctx context.Context, out io.Writer) error {
	file, size, err := openRegular(s.args[0])
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read
	info, err := snapshot.Check(ctx, file, size)
	if err != nil {
		return fmt.Errorf("%s: %w", s.args[0], err)
	}
	fmt.Fprintf(out, "%s is whole: %s of revision %d\n", s.args[0], amount(info.Records, info.Bytes), info.Revision)
	return nil
}

func (s *settings) restore(ctx context.Context, out io.Writer) (err error) {
	file, size, err := openRegular(s.args[0])
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()          // only read
	info, err := snapshot.Check(ctx, file, size) // before anything is created
	if err != nil {
		return fmt.Errorf("%s: %w", s.args[0], err)
	}
	to, err := s.target(ctx, s.args[1], info.FirstRevision())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.close(err != nil)) }()
	show := s.showing("restored")
	restored, err := snapshot.Restore(ctx, to, file, size, snapshot.RestoreOptions{Writers: s.writers, Progress: func(i snapshot.Info) { show(i.Records, i.Bytes) }})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s restored and compared; it is at revision %d\n", s.args[1], amount(info.Records, info.Bytes), restored.Newest)
	warn(out, restored.Behind, restored.Revision)
	return nil
}

func (s *settings) copy(ctx context.Context, out io.Writer) (err error) {
	from, err := s.source(ctx, s.args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.close(false)) }()
	revision, err := from.Revision(ctx)
	if err != nil {
		return err
	}
	to, err := s.target(ctx, s.args[1], snapshot.Info{Revision: revision}.FirstRevision())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.close(err != nil)) }()
	show := s.showing("copied")
	copied, err := transfer.Copy(ctx, to, from, transfer.CopyOptions{
		Prefix: s.prefix, Revision: revision, Writers: s.writers, Progress: func(c transfer.Copied) { show(c.Records, c.Bytes) },
	})
	if err != nil {
		return err
	}
	compared := s.showing("compared")
	v, err := transfer.Verify(ctx, transfer.Side{Store: from, Revision: revision}, transfer.Side{Store: to},
		transfer.VerifyOptions{Prefix: s.prefix, Progress: func(v transfer.Verified) { compared(v.First, v.Bytes) }})
	if err = errors.Join(err, v.Err()); err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	fmt.Fprintf(out, "%s: %s of revision %d copied and compared; it is at revision %d\n", s.args[1], amount(copied.Records, copied.Bytes), revision, copied.Newest)
	warn(out, copied.Behind, revision)
	return nil
}

// warn explains the consequences of a store that is behind.
func warn(out io.Writer, behind bool, revision int64) {
	if behind {
		fmt.Fprintf(out, "note: it began below revision %d, which clients may have seen: restart all that follow the cluster\n", revision)
	}
}

func (s *settings) verify(ctx context.Context, out io.Writer) (err error) {
	var sides [2]transfer.Side
	for i, at := range s.args {
		side, err := s.source(ctx, at)
		if err != nil {
			return err
		}
		defer func() { _ = side.close(false) }() // only read
		sides[i].Store = side
	}
	show := s.showing("compared")
	v, err := transfer.Verify(ctx, sides[0], sides[1], transfer.VerifyOptions{Prefix: s.prefix, Progress: func(v transfer.Verified) { show(v.First, v.Bytes) }})
	if err != nil {
		return err
	}
	for _, d := range v.Differences {
		fmt.Fprintf(out, "%s: %s\n", d.Key, d.Kind)
	}
	if more := v.Different - int64(len(v.Differences)); more > 0 {
		fmt.Fprintf(out, "and %d more\n", more)
	}
	if err := v.Err(); err != nil {
		return fmt.Errorf("%d keys differ", v.Different)
	}
	fmt.Fprintf(out, "the same: %s\n", amount(v.First, v.Bytes))
	return nil
}

func (s *settings) compact(ctx context.Context, out io.Writer) (err error) {
	at, err := s.source(ctx, s.args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.close(err != nil)) }()
	compactor, ok := storage.As[storage.Compactor](at.Store)
	if !ok {
		fmt.Fprintf(out, "%s keeps its history short by itself\n", s.args[0])
		return nil
	}
	revision, err := at.Revision(ctx)
	if err == nil {
		err = compactor.Compact(ctx, revision)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: the history before revision %d is gone\n", s.args[0], revision)
	return nil
}

// showing returns a function that prints progress, at most twice a second.
func (s *settings) showing(what string) func(records, bytes int64) {
	const every = time.Second / 2
	last := time.Now()
	return func(records, bytes int64) {
		if now := time.Now(); now.Sub(last) >= every {
			last = now
			fmt.Fprintf(s.progress, "%s %s\n", what, amount(records, bytes))
		}
	}
}

func amount(records, bytes int64) string {
	noun := "records"
	if records == 1 {
		noun = "record"
	}
	return fmt.Sprintf("%d %s, %.1f MiB", records, noun, float64(bytes)/(1<<20))
}
