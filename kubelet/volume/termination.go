package volume

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/keelson-dev/keelson/cri"
)

const (
	defaultMessagePath = "/dev/termination-log"
	// messagesKept is how many files of a container's instances are kept, with a message and
	// without: more than a runtime keeps instances of it.
	messagesKept = 10
	// messageLength is how much of a message file is told, from its end.
	messageLength = 4096
)

// How much of the end of its log stands in for the message of a container that left none.
const (
	MessageLogBytes = 2048
	MessageLogLines = 80
)

// Annotations by which a kubelet marks its containers.
const (
	annotationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	annotationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
)

// messageMount makes a new file for the message of a new instance of the container.
func (v *Volumes) messageMount(pod *corev1.Pod, c *corev1.Container) (cri.Mount, error) {
	dir := filepath.Join(v.podDir(pod.UID), "containers", c.Name)
	if err := v.disk.MkdirAll(dir, dirMode); err != nil {
		return cri.Mount{}, err
	}
	if err := v.pruneMessages(dir); err != nil {
		return cri.Mount{}, err
	}
	file := filepath.Join(dir, fmt.Sprintf("%08x", rand.Uint32()))
	if err := v.disk.WriteFile(file, nil, 0o666); err != nil {
		return cri.Mount{}, err
	}
	return cri.Mount{
		ContainerPath: absolute(cmp.Or(c.TerminationMessagePath, defaultMessagePath)),
		HostPath:      file, SELinuxRelabel: v.options.SELinux,
	}, nil
}

// pruneMessages removes the files of instances that are long gone. Those that have a message are
// counted for themselves: attempts that fail leave empty files, however many.
func (v *Volumes) pruneMessages(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) < messagesKept {
		return err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	kept := map[bool]int{}
	for _, f := range files {
		empty := f.Size() == 0
		if kept[empty]++; kept[empty] < messagesKept {
			continue
		}
		if err := v.disk.Remove(filepath.Join(dir, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

// TerminationMessage is the message of a container that has exited: what the runtime says of its
// end, and after that what it said itself, in the file of its message or, where that is empty, its
// policy asks for it and it failed, at the end of its log. The function tail reads the log at a
// path on the host, at most MessageLogLines lines and MessageLogBytes bytes from its end; nil is a
// node without logs.
func TerminationMessage(status cri.ContainerStatus, tail func(path string) (string, error)) string {
	said := lastWords(status, tail)
	if status.Message != "" && said != "" {
		return status.Message + ": " + said
	}
	return status.Message + said
}

// lastWords are what the container said itself.
func lastWords(status cri.ContainerStatus, tail func(path string) (string, error)) string {
	if status.State != cri.ContainerExited {
		return ""
	}
	policy := corev1.TerminationMessagePolicy(status.Annotations[annotationMessagePolicy])
	fallback := policy == corev1.TerminationMessageFallbackToLogsOnError &&
		status.ExitCode != 0 && status.Reason != "ContainerCannotRun" && tail != nil
	if message := readMessage(status); message != "" || !fallback {
		return message
	}
	text, err := tail(status.LogPath)
	if err != nil {
		return fmt.Sprintf("Error on reading termination message from logs: %v", err)
	}
	return text
}

// readMessage reads the file that the container had as its message; empty when it had none. The
// file is the container's: it may be anything.
func readMessage(status cri.ContainerStatus) string {
	at := status.Annotations[annotationMessagePath]
	if at == "" {
		return ""
	}
	i := slices.IndexFunc(status.Mounts, func(m cri.Mount) bool { return m.ContainerPath == absolute(at) })
	if i < 0 {
		return ""
	}
	file := status.Mounts[i].HostPath
	text, err := readEnd(file, messageLength)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	if err != nil {
		return fmt.Sprintf("Error on reading termination log %s: %v", file, err)
	}
	return text
}

// readEnd returns at most so many bytes from the end of a regular file.
func readEnd(path string, most int64) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("not a regular file")
	}
	f, err := os.OpenFile(path, os.O_RDONLY|noWait, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	if info, err = f.Stat(); err != nil {
		return "", err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(info.Size()-most, 0), most))
	return string(data), err
}
