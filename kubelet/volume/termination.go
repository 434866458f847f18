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
	// messagesKept is how many message files of a container are kept, of those with a message and of those without:
	// more than a runtime keeps instances.
	messagesKept = 10
	// messageLength is how much of a message file is reported, from its end.
	messageLength = 4096
)

// How much of a container's log, from its end, replaces a missing message.
const (
	MessageLogBytes = 2048
	MessageLogLines = 80
)

// Annotations that a kubelet sets on its containers.
const (
	annotationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	annotationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
)

// messageMount creates a new file for the message of a new instance of the container.
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

// pruneMessages removes the files of instances that are long gone. Files with a message are counted separately: failed
// attempts leave any number of empty files.
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

// TerminationMessage returns the message of a container that has exited: the runtime's message, followed by the
// container's own, which is in its message file or, if that is empty, the container failed and its policy says so, at
// the end of its log. The function tail reads the log at a path on the host, at most MessageLogLines lines and
// MessageLogBytes bytes from its end; nil means that the node has no logs.
func TerminationMessage(status cri.ContainerStatus, tail func(path string) (string, error)) string {
	said := lastWords(status, tail)
	if status.Message != "" && said != "" {
		return status.Message + ": " + said
	}
	return status.Message + said
}

// lastWords returns the container's own message.
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

// readMessage reads the container's message file; empty if it had none. The container controls the file, so it may be
// of any type.
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

// readEnd returns at most the given number of bytes from the end of a regular file.
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
