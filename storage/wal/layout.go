package wal

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/keelson-dev/keelson/storage/internal/disk"
)

// A store's directory holds
//
//	FORMAT               the format's version and the store's identity, written once
//	LOCK                 locked while the store is open
//	REVISION.log         the changes after REVISION, up to the next log's
//	REVISION.snapshot    the records as they were at REVISION
//	*.tmp                files being made; left over after a crash
const (
	formatName     = "FORMAT"
	logSuffix      = ".log"
	snapshotSuffix = ".snapshot"
	tmpSuffix      = ".tmp"

	formatVersion = 1
)

func logName(revision int64) string { return fmt.Sprintf("%020d%s", revision, logSuffix) }

func snapshotName(revision int64) string { return fmt.Sprintf("%020d%s", revision, snapshotSuffix) }

// revisionOf parses a file's name; ok is false if it is not such a name.
func revisionOf(name, suffix string) (revision int64, ok bool) {
	digits, found := strings.CutSuffix(name, suffix)
	revision, err := strconv.ParseInt(digits, 10, 64)
	return revision, found && err == nil && revision > 0 && len(digits) == 20 && digits[0] == '0'
}

// layout is the content of a directory.
type layout struct {
	format     bool
	logs       []int64 // ascending
	snapshots  []int64
	temporary  []string
	otherFiles []string
}

func readLayout(dir disk.Reader) (layout, error) {
	names, err := dir.Names()
	if err != nil {
		return layout{}, err
	}
	var l layout
	for _, name := range names {
		made := strings.TrimSuffix(name, tmpSuffix)
		log, isLog := revisionOf(made, logSuffix)
		snapshot, isSnapshot := revisionOf(made, snapshotSuffix)
		switch {
		case name == disk.LockName:
		case made != formatName && !isLog && !isSnapshot:
			l.otherFiles = append(l.otherFiles, name)
		case made != name:
			l.temporary = append(l.temporary, name)
		case isLog:
			l.logs = append(l.logs, log)
		case isSnapshot:
			l.snapshots = append(l.snapshots, snapshot)
		default:
			l.format = true
		}
	}
	slices.Sort(l.logs)
	slices.Sort(l.snapshots)
	return l, nil
}

// foreign says why a directory without a FORMAT is not the start of a store.
func (l layout) foreign(path string) error {
	if !l.format && len(l.otherFiles) > 0 {
		return fmt.Errorf("%w: %s holds %q; choose an empty directory", ErrForeign, path, l.otherFiles[0])
	}
	return nil
}

// formatFile is the content of FORMAT.
func formatFile(identity uint64) []byte {
	line := fmt.Sprintf("keelson-wal %d %016x", formatVersion, identity)
	return fmt.Appendf(nil, "%s %08x\n", line, crc32.Checksum([]byte(line), castagnoli()))
}

// readIdentity reads FORMAT. No version may change the layout of this file up to and including the version number.
func readIdentity(dir disk.Reader, path string) (uint64, error) {
	content, err := readFile(dir, formatName)
	if err != nil {
		return 0, err
	}
	damaged := func(reason string) error {
		return &CorruptError{File: filepath.Join(path, formatName), Reason: reason}
	}
	fields := strings.Fields(string(content))
	if len(fields) < 2 || fields[0] != "keelson-wal" {
		return 0, damaged("it does not name a format")
	}
	if version, err := strconv.Atoi(fields[1]); err == nil && version != formatVersion {
		return 0, fmt.Errorf("%w: %s has version %d, this program knows %d; use the program that wrote it or a newer one",
			ErrVersion, path, version, formatVersion)
	}
	if len(fields) == 4 {
		identity, err := strconv.ParseUint(fields[2], 16, 64)
		if err == nil && string(formatFile(identity)) == string(content) {
			return identity, nil
		}
	}
	return 0, damaged("it does not match its checksum")
}

// readFile reads the first part of a small file.
func readFile(dir disk.Reader, name string) ([]byte, error) {
	source, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	content := make([]byte, min(source.Size(), 4096))
	_, err = io.ReadFull(io.NewSectionReader(source, 0, source.Size()), content)
	return content, err
}

// createFile makes a file with its first bytes, so that after a crash it is either complete or absent, and returns it
// open. The caller must Sync the directory.
func createFile(dir disk.Dir, name string, content []byte) (disk.File, error) {
	file, err := dir.Create(name + tmpSuffix)
	if err != nil {
		return nil, err
	}
	if _, err = file.Write(content); err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = dir.Rename(name+tmpSuffix, name)
	}
	if err != nil {
		_ = file.Close() // the first error counts
		return nil, err
	}
	return file, nil
}

// begin returns the header of a new store's first log.
func begin(identity [8]byte, first int64) header {
	return header{logKind(), max(first, genesis), binary.LittleEndian.Uint64(identity[:])}
}

// initialize makes an empty store in an empty directory. FORMAT comes last: when it exists, the first log does. A log
// whose revision is not genesis follows a snapshot, here an empty one.
func initialize(dir disk.Dir, l layout, path string, first header) error {
	leftover, err := unfinished(dir, l, first.revision)
	if err != nil {
		return err
	}
	if leftover == nil {
		return missing(path, formatName)
	}
	for _, name := range leftover {
		if err := dir.Remove(name); err != nil {
			return err
		}
	}
	if err := create(dir, logName(first.revision), first.encode()); err != nil {
		return err
	}
	if first.revision != genesis {
		if err := create(dir, snapshotName(first.revision), emptySnapshot(first)); err != nil {
			return err
		}
	}
	return create(dir, formatName, formatFile(first.identity))
}

// unfinished lists what an interrupted initialize may have left of a store that was to begin at a revision. It is nil,
// not just empty, if anything else is there.
func unfinished(dir disk.Reader, l layout, first int64) ([]string, error) {
	leftover := append([]string{}, l.temporary...)
	add := func(revision int64, name string, size int) (bool, error) {
		content, err := readFile(dir, name)
		leftover = append(leftover, name)
		return (revision == genesis || revision == first) && len(content) <= size, err
	}
	for _, revision := range l.logs {
		if ok, err := add(revision, logName(revision), headerSize); err != nil || !ok {
			return nil, err
		}
	}
	for _, revision := range l.snapshots {
		if ok, err := add(revision, snapshotName(revision), len(emptySnapshot(header{}))); err != nil || !ok || revision == genesis {
			return nil, err
		}
	}
	return leftover, nil
}

func create(dir disk.Dir, name string, content []byte) error {
	file, err := createFile(dir, name, content)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return dir.Sync()
}

func missing(path, name string) error {
	return &CorruptError{File: filepath.Join(path, name), Reason: "the file is missing"}
}
