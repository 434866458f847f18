package containerd

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
)

// paths are the directories of a daemon: dir is persistent, run does not survive a reboot.
type paths struct{ dir, run string }

const defaultRunDir = "/run/keelson"

// runFor returns a directory below base that is short however long dir is: containerd limits its shims' socket
// directory to 42 bytes.
func runFor(base, dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(base, hex.EncodeToString(sum[:])[:12])
}

func (p paths) root() string        { return filepath.Join(p.dir, "root") }
func (p paths) config() string      { return filepath.Join(p.dir, "config.toml") }
func (p paths) log() string         { return filepath.Join(p.dir, "containerd.log") }
func (p paths) oldLog() string      { return filepath.Join(p.dir, "containerd.log.1") }
func (p paths) record() string      { return filepath.Join(p.dir, "daemon.json") }
func (p paths) sandbox() string     { return filepath.Join(p.dir, "sandbox-seccomp.json") }
func (p paths) lock() string        { return filepath.Join(p.dir, "lock") }
func (p paths) registries() string  { return filepath.Join(p.dir, "certs.d") }
func (p paths) state() string       { return filepath.Join(p.run, "state") }
func (p paths) socket() string      { return filepath.Join(p.run, "containerd.sock") }
func (p paths) shimSockets() string { return filepath.Join(p.run, "s") }
func (p paths) runc() string        { return filepath.Join(p.run, "runc") }
