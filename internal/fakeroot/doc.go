// Package fakeroot is for tests that mount. For users other than root, they run as root of their own user and mount
// namespaces, if the kernel allows it: there they may mount, invisibly to others. Such a root cannot give files to
// other users, as there are none. Conversely, tests with unreadable or undeletable files run as root without root's
// rights to files.
package fakeroot
