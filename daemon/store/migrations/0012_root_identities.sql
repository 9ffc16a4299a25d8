-- Which directory each root is, by device and inode: another one at its path says nothing about the root's runs.
alter table roots add column identity text;
