package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// part is a program that does one thing: it reads commands as lines and writes its answers as lines, until its input
// ends.
type part struct {
	in    io.WriteCloser
	lines *bufio.Scanner
	wait  func() error
}

// starter starts a part with arguments.
type starter func(ctx context.Context, args ...string) (*part, error)

// asProcess runs each part in its own process, which separates their memory.
func asProcess(ctx context.Context, args ...string) (*part, error) {
	command := exec.CommandContext(ctx, os.Args[0], append([]string{"-part"}, args...)...)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	return &part{in, bufio.NewScanner(out), command.Wait}, nil
}

// asGoroutine runs parts in this process.
func asGoroutine(ctx context.Context, args ...string) (*part, error) {
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := play(ctx, args, inRead, outWrite)
		_ = outWrite.CloseWithError(io.EOF)
		_ = inRead.Close()
		done <- err
	}()
	return &part{inWrite, bufio.NewScanner(outRead), func() error { return <-done }}, nil
}

// play runs a part.
func play(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	switch {
	case len(args) == 2 && args[0] == "server":
		return playServer(ctx, args[1], in, out)
	case len(args) == 5 && args[0] == "watchers":
		return playWatchers(ctx, args[1:], in, out)
	}
	return fmt.Errorf("no such part: %q", args)
}

// tell writes a line to the part.
func (p *part) tell(line string) error {
	_, err := fmt.Fprintln(p.in, line)
	return err
}

// hear reads a line of the part that begins with the word, and returns the rest.
func (p *part) hear(word string) (string, error) {
	if !p.lines.Scan() {
		return "", errors.Join(fmt.Errorf("a part ended before it said %q", word), p.lines.Err())
	}
	first, rest, _ := strings.Cut(p.lines.Text(), " ")
	if first != word {
		return "", fmt.Errorf("a part said %q, not %q", p.lines.Text(), word)
	}
	return rest, nil
}

// end closes the part's input and waits for it.
func (p *part) end() error {
	err := p.in.Close()
	for p.lines.Scan() { // lets it write its remaining output
	}
	return errors.Join(err, p.wait())
}
